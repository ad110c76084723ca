// What lasts in a browser: the key, the joined groups, the outbox as signed, the ids handled, the sequence numbers.
const STORES = ['kept', 'groups', 'outbox', 'asked', 'handled'];
const ASKED_KEEP_MS = 24 * 3600 * 1000;

export class StoreError extends Error {}

// Open the store of an app's name. `lost(sentence)` is called if the browser takes it away while it is open.
export function openStore(name, lost) {
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
    asked.onblocked = () => failed(new StoreError('another tab holds an older form of this site\'s data: close the other tabs, then load this page again'));
    asked.onerror = () => failed(refused(asked.error));
    asked.onsuccess = () => {
      const db = asked.result, store = new Store(db);
      db.onversionchange = () => db.close();
      db.onclose = () => lost('the browser has removed what this site kept, its key too: load the page again, and ask for a new invitation if it is turned away');
      done(store);
    };
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
  if (error?.name === 'QuotaExceededError') return new StoreError('there is no room: the browser\'s storage, or the disk, is full. Nothing was sent; make room, then say it again');
  return new StoreError(`the browser keeps nothing for this site (${error?.name ?? 'it gives no reason'}): allow its data, or leave the private window`);
}

class Store {
  #db;

  constructor(db) { this.#db = db; }

  // Run `act` in one transaction of all stores; resolve with what it returned once that is on disk.
  #commit(act, mode = 'readwrite', durability = 'strict') {
    return new Promise((done, failed) => {
      let value, run;
      try {
        run = this.#db.transaction(STORES, mode, { durability });
        value = act(name => run.objectStore(name));
      } catch (error) {
        failed(refused(error));
        run?.abort();
        return;
      }
      run.oncomplete = () => done(value instanceof IDBRequest ? value.result : value);
      run.onabort = () => failed(refused(run.error));
    });
  }

  get(key) { return this.#commit(of => of('kept').get(key), 'readonly'); }
  put(key, value) { return this.#commit(of => void of('kept').put(value, key)); }
  drop(key) { return this.#commit(of => void of('kept').delete(key)); }

  // Everything that an engine begins with; what has expired by `nowMin` is removed.
  async load(nowMin) {
    const from = await this.#commit(of => {
      const old = of('handled').index('exp').openKeyCursor(IDBKeyRange.upperBound(nowMin));
      old.onsuccess = () => { const at = old.result; if (at) { of('handled').delete(at.primaryKey); at.continue(); } };
      const past = of('asked').index('at').openKeyCursor(IDBKeyRange.upperBound(Date.now() - ASKED_KEEP_MS));
      past.onsuccess = () => { const at = past.result; if (at) { of('asked').delete(at.primaryKey); at.continue(); } };
      return Object.fromEntries(STORES.flatMap(name => name === 'handled' || name === 'outbox' || name === 'groups'
        ? [[name, of(name).getAll()], [`${name}Keys`, of(name).getAllKeys()]] : []));
    });
    return Object.fromEntries(Object.entries(from).map(([name, request]) => [name, request.result]));
  }

  putGroup(name, group) { return this.#commit(of => void of('groups').put(group, name)); }
  dropGroup(name) { return this.#commit(of => void of('groups').delete(name)); }
  asked(key) { return this.#commit(of => of('asked').get(key), 'readonly'); }

  // Keep signed messages, each with the request that made it, and the state of their groups; resolve with the rows' keys.
  async publish(rows, groups) {
    const requests = await this.#commit(of => {
      for (const [name, group] of groups) of('groups').put(group, name);
      return rows.map(row => {
        if (row.asked) of('asked').put({ id: row.id, at: Date.now() }, row.asked);
        return of('outbox').add(row);
      });
    });
    return requests.map(request => request.result);
  }

  // The node has taken these rows, or refused them: `ends` has [key, row, refusal or null].
  end(ends) {
    return this.#commit(of => {
      for (const [key, row, refusal] of ends) {
        of('outbox').delete(key);
        if (row.asked && refusal) of('asked').put({ id: row.id, at: Date.now(), refusal }, row.asked);
      }
    }, 'readwrite', 'relaxed');
  }

  // Remember ids as handled until they expire, with the state of their groups.
  handle(ids, groups) {
    return this.#commit(of => {
      for (const [id, exp] of ids) of('handled').put({ exp }, id);
      for (const [name, group] of groups) of('groups').put(group, name);
    });
  }

  close() { this.#db.close(); }
}
