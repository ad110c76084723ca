// What lasts in a browser: the key, the joined groups, the outbox as signed, the ids handled, the sequence numbers.
// Where the browser keeps nothing, has no room or takes it all away, the store goes on in this page's memory and says so.
const STORES = ['kept', 'groups', 'outbox', 'asked', 'handled'];
const ASKED_KEEP_MS = 24 * 3600 * 1000;
const BESIDE = 2 ** -20;
const NUMBERS_LEFT_OUT = 65536;
const HERE = 'This page goes on without: what it sends is lost if its tabs are closed before the node has it';

const NEWER = 'what this site keeps on this device is of a newer version than this page. Nothing of it is lost: close the other tabs of the page, and load it again while the node can be reached; if it still says so, the node has been set back to an older version, and its operator can bring the newer one back';
const SUPERSEDED = 'a newer version of this page has been opened in another tab, and has taken over what is kept here: load this page again';

export class StoreError extends Error {}

// Open the store of an app's name. `trouble(sentence)` is called when it goes on in memory, `superseded(sentence)` when a newer version
// of the page takes what is kept: then nothing may be said any more, since the same numbers would be taken twice.
export async function openStore(name, trouble, superseded = () => {}) {
  const store = new Store(name, trouble, superseded);
  try {
    await store.open();
  } catch (error) {
    if (error.isOtherForm) throw error;
    store.fail(error);
  }
  return store;
}

function opened(name) {
  return new Promise((done, failed) => {
    let asked;
    try {
      asked = indexedDB.open(`upsycle ${name}`, 1);
    } catch (error) {
      failed(refused(error));
      return;
    }
    asked.onupgradeneeded = () => {
      const db = asked.result;
      db.createObjectStore('kept');
      db.createObjectStore('groups');
      db.createObjectStore('outbox', { autoIncrement: true });
      db.createObjectStore('asked').createIndex('at', 'at');
      db.createObjectStore('handled').createIndex('exp', 'exp');
    };
    asked.onblocked = () => failed(Object.assign(new StoreError('another tab holds an older form of this site\'s data: close the other tabs, then load this page again'), { isOtherForm: true }));
    asked.onerror = () => failed(asked.error?.name === 'VersionError' ? Object.assign(new StoreError(NEWER), { isOtherForm: true }) : refused(asked.error));
    asked.onsuccess = () => done(asked.result);
  });
}

export function removeStore(name) {
  return new Promise((done, failed) => {
    const asked = indexedDB.deleteDatabase(`upsycle ${name}`);
    asked.onsuccess = () => done();
    asked.onblocked = () => {};
    asked.onerror = () => failed(refused(asked.error));
  });
}

function refused(error) {
  if (error?.name === 'QuotaExceededError') return new StoreError('there is no room: the browser\'s storage, or the disk, is full');
  return new StoreError(`the browser keeps nothing for this site (${error?.name ?? 'it gives no reason'}): allow its data, or leave the private window`);
}

class Store {
  #name;
  #trouble;
  #superseded;
  #db = null;
  #kept = new Map();
  #asked = new Map();
  #lastKey = 0;
  #mayNumber = true;

  isOver = false;

  constructor(name, trouble, superseded) {
    this.#name = name;
    this.#trouble = trouble;
    this.#superseded = superseded;
  }

  async open() { this.#use(await opened(this.#name)); }

  #use(db) {
    this.#db = db;
    db.onversionchange = ({ newVersion }) => {
      db.close();
      if (newVersion === null) this.#taken();
      else this.#end();
    };
    db.onclose = () => this.#taken();
  }

  // A sentence is said once for each cause.
  fail({ message }) {
    if (message && this.failure !== message) this.#trouble(`${this.failure = message}. ${HERE}`);
  }

  #end() {
    this.#db = null;
    this.isOver = true;
    this.#superseded(this.failure = SUPERSEDED);
  }

  // Throw if another version of the page has what is kept.
  mustBeOurs() { if (this.isOver) throw new StoreError(SUPERSEDED); }

  // The browser closes what it removes, but sometimes also what it keeps.
  async #taken() {
    this.#db = null;
    const db = await opened(this.#name).catch(() => null);
    if (db && await this.#commit(of => of('kept').get('epoch'), 'readonly', 'strict', db).catch(() => null)) return this.#use(db);
    db?.close();
    return this.fail(new StoreError('the browser has removed what this site kept, its key too: once all tabs are closed, a new invitation is needed'));
  }

  // Run `act` in one transaction of all stores; resolve with what it returned once that is on disk.
  #commit(act, mode = 'readwrite', durability = 'strict', db = this.#db) {
    return new Promise((done, failed) => {
      let value, run;
      try {
        if (!db) throw new StoreError(this.failure);
        run = db.transaction(STORES, mode, { durability });
        value = act(name => run.objectStore(name));
      } catch (error) {
        failed(error instanceof StoreError ? error : refused(error));
        run?.abort();
        return;
      }
      run.oncomplete = () => done(value instanceof IDBRequest ? value.result : value);
      run.onabort = () => failed(refused(run.error));
    });
  }

  // Write, or say that it could not be written.
  #written(act, durability) { return this.#commit(act, 'readwrite', durability).catch(error => this.fail(error)); }

  async get(key) { return this.#kept.get(key) ?? (this.#db ? this.#commit(of => of('kept').get(key), 'readonly') : undefined); }

  async put(key, value) {
    this.#kept.set(key, value);
    await this.#written(of => void of('kept').put(value, key));
  }

  async drop(key) {
    this.#kept.delete(key);
    await this.#written(of => void of('kept').delete(key));
  }

  // Everything that an engine begins with. If an earlier one took numbers that it could not write down, they are left out.
  async load() {
    try {
      if (this.#db) return await this.#loaded();
    } catch (error) {
      this.#db = null;
      this.fail(error);
    }
    return { groups: [], groupsKeys: [], outbox: [], outboxKeys: [], handledKeys: [], firstSeq: 0 };
  }

  async #loaded() {
    const from = await this.#commit(of => Object.fromEntries([
      ...['groups', 'outbox'].map(name => [name, of(name).getAll()]), ...['groups', 'outbox', 'handled'].map(name => [`${name}Keys`, of(name).getAllKeys()]),
      ...['clean', 'firstSeq', 'epoch'].map(name => [name, of('kept').get(name)])]), 'readonly');
    const found = Object.fromEntries(Object.entries(from).map(([name, request]) => [name, request.result]));
    this.#lastKey = Math.max(0, ...found.outboxKeys);
    const beyond = found.epoch && !found.clean ? NUMBERS_LEFT_OUT : 0, firstSeq = (found.firstSeq ?? 0) + beyond;
    for (const group of found.groups) group.seq += beyond;
    if (!found.clean) {
      await this.#commit(of => {
        found.groups.forEach((group, i) => of('groups').put(group, found.groupsKeys[i]));
        of('kept').put(firstSeq, 'firstSeq');
        of('kept').put(true, 'clean');
      }).catch(error => { this.#mayNumber = !beyond; this.fail(error); });
    }
    return { ...found, firstSeq };
  }

  // Remove what has expired: once the time is known, since by a clock that is a year off it would be all.
  purge(nowMin, nowMs) {
    if (!this.#db) return;
    this.#commit(of => {
      const old = of('handled').index('exp').openKeyCursor(IDBKeyRange.upperBound(nowMin));
      old.onsuccess = () => { const at = old.result; if (at) { of('handled').delete(at.primaryKey); at.continue(); } };
      const past = of('asked').index('at').openKeyCursor(IDBKeyRange.upperBound(nowMs - ASKED_KEEP_MS));
      past.onsuccess = () => { const at = past.result; if (at) { of('asked').delete(at.primaryKey); at.continue(); } };
    }, 'readwrite', 'relaxed').catch(() => {});
  }

  putGroup(name, group) { return this.#written(of => void of('groups').put(group, name)); }
  async asked(key) { return this.#asked.get(key) ?? (this.#db ? this.#commit(of => of('asked').get(key), 'readonly').catch(() => undefined) : undefined); }

  // Keep signed messages, each with the request that made it, and the state of their groups; resolve with the rows' keys, and whether
  // they are on disk. An own message is known as handled, so that none waits for it as its cause.
  async publish(rows, groups, nowMs) {
    try {
      const requests = await this.#commit(of => {
        for (const [name, group] of groups) of('groups').put(group, name);
        return rows.map(row => {
          if (row.asked) of('asked').put({ id: row.id, at: nowMs }, row.asked);
          if (row.group) of('handled').put({ exp: row.exp }, row.id);
          return of('outbox').add(row);
        });
      });
      this.#lastKey = requests.at(-1)?.result ?? this.#lastKey;
      return { keys: requests.map(request => request.result), onDisk: true };
    } catch (error) {
      this.mustBeOurs();
      await this.#numberBeside(error);
      this.fail(error);
      for (const row of rows) if (row.asked) this.#asked.set(row.asked, { id: row.id });
      return { keys: rows.map(() => (this.#lastKey += BESIDE)), onDisk: false };
    }
  }

  // Numbers are taken that are not written down: a mark is taken away, which needs no room, and tells the next run.
  async #numberBeside(error) {
    if (!this.#db) return;
    await this.#commit(of => void of('kept').delete('clean')).catch(() => { this.#mayNumber = false; });
    if (!this.#mayNumber) throw new StoreError(`${error.message}. Nothing was sent; make room, then say it again`);
  }

  // The node has taken these rows, or refused them: `ends` has [key, row, refusal or null].
  end(ends, nowMs) {
    for (const [, row, refusal] of ends) if (this.#asked.has(row.asked)) this.#asked.set(row.asked, { id: row.id, refusal });
    if (!this.#db) return Promise.resolve();
    return this.#commit(of => {
      for (const [key, row, refusal] of ends) {
        of('outbox').delete(key);
        if (row.asked && refusal) of('asked').put({ id: row.id, at: nowMs, refusal }, row.asked);
      }
    }, 'readwrite', 'relaxed');
  }

  // Remember ids as handled until they expire, with the state of their groups.
  handle(ids, groups) {
    return this.#written(of => {
      for (const [id, exp] of ids) of('handled').put({ exp }, id);
      for (const [name, group] of groups) of('groups').put(group, name);
    });
  }

  close() { this.#db?.close(); }
}
