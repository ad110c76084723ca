// What was said, kept on this device: a line for each message, in the order in which it came here.
const LINES_MAX = 2000;

export function openHistory() {
  return new Promise((done, failed) => {
    const asked = indexedDB.open('chat history', 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore('lines', { autoIncrement: true }).createIndex('id', 'id', { unique: true });
    asked.onsuccess = () => done(new History(asked.result));
    asked.onerror = () => failed(asked.error);
  });
}

class History {
  #db;

  constructor(db) {
    this.#db = db;
    db.onversionchange = () => db.close();
  }

  #run(mode, act) {
    return new Promise((done, failed) => {
      const run = this.#db.transaction('lines', mode), found = act(run.objectStore('lines'));
      run.oncomplete = () => done(found?.result);
      run.onabort = () => failed(run.error);
    });
  }

  // Add a line unless it is here.
  add(line) {
    return this.#run('readwrite', lines => {
      const known = lines.index('id').getKey(line.id);
      known.onsuccess = () => { if (known.result === undefined) lines.add(line); };
    });
  }

  change(id, part) {
    return this.#run('readwrite', lines => {
      const at = lines.index('id').openCursor(id);
      at.onsuccess = () => { if (at.result) at.result.update({ ...at.result.value, ...part }); };
    });
  }

  // The newest lines of a group, oldest first.
  async lines(group) {
    const found = [];
    await this.#run('readonly', lines => {
      const at = lines.openCursor(null, 'prev');
      at.onsuccess = () => {
        if (!at.result || found.length >= LINES_MAX) return;
        if (at.result.value.group === group) found.unshift(at.result.value);
        at.result.continue();
      };
    });
    return found;
  }

  remove() {
    this.#db.close();
    indexedDB.deleteDatabase('chat history');
  }
}
