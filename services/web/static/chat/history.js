// What was said, kept on this device: a line for each message, in the order in which it came here, the newest of each group.
const LINES_MAX = 2000;
const GONE = 'This browser keeps nothing of what is said here: once this page is closed it is gone from this device.';

const NEWER = 'What was said here is kept by a newer version of this page. Nothing of it is lost: close the other tabs of the page, and load it again while the node can be reached.';

// Open it; `trouble(sentence)` is called when it goes on in this page's memory. Reject if a newer version of the page has kept it: else
// what comes would be handled without being kept.
export function openHistory(trouble) {
  return new Promise((done, failed) => {
    const none = () => { trouble(GONE); done(new History(null, trouble)); };
    try {
      const asked = indexedDB.open('chat history', 2);
      asked.onupgradeneeded = ({ oldVersion }) => {
        const lines = oldVersion ? asked.transaction.objectStore('lines') : asked.result.createObjectStore('lines', { autoIncrement: true });
        if (!oldVersion) lines.createIndex('id', 'id', { unique: true });
        lines.createIndex('group', 'group');
      };
      asked.onsuccess = () => done(new History(asked.result, trouble));
      asked.onerror = () => asked.error?.name === 'VersionError' ? failed(new Error(NEWER)) : none();
    } catch {
      none();
    }
  });
}

class History {
  #db;
  #trouble;
  #unkept = new Map();
  #isOver = false;

  constructor(db, trouble) {
    this.#db = db;
    this.#trouble = trouble;
    if (db) db.onversionchange = ({ newVersion }) => { db.close(); this.#db = null; this.#isOver = newVersion !== null; };
    if (db) db.onclose = () => { this.#db = null; trouble(GONE); };
  }

  #run(mode, act) {
    return new Promise((done, failed) => {
      const run = this.#db.transaction('lines', mode), found = act(run.objectStore('lines'));
      run.oncomplete = () => done(found?.result);
      run.onabort = () => failed(run.error);
    });
  }

  // Add a line unless it is here, and resolve with whether it was not, in any tab; the oldest of its group go, beyond LINES_MAX.
  async add(line) {
    let isNew = true;
    try {
      if (this.#isOver) throw new Error(NEWER);
      await this.#run('readwrite', lines => {
        const known = lines.index('id').getKey(line.id);
        known.onsuccess = () => {
          isNew = known.result === undefined;
          if (!isNew) return;
          lines.add(line);
          prune(lines, line.group);
        };
      });
    } catch (error) {
      if (this.#isOver) throw error;
      if (!this.#unkept.size && this.#db) this.#trouble(`There is no room on this device: what is said from now on is gone once this page is closed. Make room in the browser's storage.`);
      this.#unkept.set(line.id, line);
      if (this.#unkept.size > LINES_MAX) this.#unkept.delete(this.#unkept.keys().next().value);
    }
    return isNew;
  }

  async change(id, part) {
    if (this.#unkept.has(id)) Object.assign(this.#unkept.get(id), part);
    else if (this.#db) await this.#run('readwrite', lines => {
      const at = lines.index('id').openCursor(id);
      at.onsuccess = () => { if (at.result) at.result.update({ ...at.result.value, ...part }); };
    }).catch(() => {});  // It tells how far a message came, which can be asked again.
  }

  // The newest lines of a group, oldest first.
  async lines(group) {
    const found = [];
    if (this.#db) await this.#run('readonly', lines => {
      const at = lines.index('group').openCursor(group, 'prev');
      at.onsuccess = () => {
        if (!at.result || found.length >= LINES_MAX) return;
        found.unshift(at.result.value);
        at.result.continue();
      };
    });
    return found;
  }

  remove() {
    this.#db?.close();
    return new Promise(done => { Object.assign(indexedDB.deleteDatabase('chat history'), { onsuccess: done, onerror: done, onblocked: done }); });
  }
}

function prune(lines, group) {
  const own = lines.index('group'), counted = own.count(group);
  counted.onsuccess = () => {
    let over = counted.result - LINES_MAX;
    if (over <= 0) return;
    const oldest = own.openKeyCursor(group);
    oldest.onsuccess = () => {
      if (!oldest.result || over-- <= 0) return;
      lines.delete(oldest.result.primaryKey);
      oldest.result.continue();
    };
  };
}
