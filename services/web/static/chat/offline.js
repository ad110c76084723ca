// The page without a network, or on one that swallows what is sent: as it was when it was last loaded whole. Else the newest.
const PATIENCE_MS = 4000, PAGES_MAX = 100;
const CACHE = 'chat ';
// Pages that came out of the cache: their parts come from there too, so that all are of one version.
const kept = new Set();

self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', event => event.waitUntil(self.clients.claim()));
self.addEventListener('message', event => event.waitUntil(keep(event.data).catch(() => {})));
self.addEventListener('fetch', event => {
  const { request } = event;
  if (request.method === 'GET' && request.cache !== 'no-store' && new URL(request.url).origin === location.origin) event.respondWith(newest(request, event.clientId, event.resultingClientId));
});

self.addEventListener('notificationclick', event => {
  event.notification.close();
  event.waitUntil(self.clients.matchAll({ type: 'window' }).then(([first]) => first ? first.focus() : self.clients.openWindow('./')));
});

// Keep all files of a page that has been loaded, or none: what was kept before goes only when all are here, of one edition. That of the
// node is asked for last.
async function keep({ files, edition, proof }) {
  const name = `${CACHE}${edition}`, cache = await caches.open(name), lacking = [];
  for (const url of files) if (!edition || !await cache.match(url)) lacking.push(url);
  const isWhole = lacking.length === 0 || await taken(cache, lacking, edition, proof).catch(() => false);
  if (!isWhole) return void (edition && await caches.delete(name));
  for (const other of await caches.keys()) if (other.startsWith(CACHE) && other !== name) await caches.delete(other);
}

async function taken(cache, urls, edition, proof) {
  const answers = await Promise.all(urls.map(url => fetch(url, { cache: 'no-cache' })));
  const bodies = await Promise.all(answers.map(answer => answer.clone().arrayBuffer()));
  if (bodies.length !== urls.length || !answers.every(({ ok }) => ok)) return false;
  if (edition && !(await (await fetch(proof, { cache: 'no-store' })).text()).includes(`'${edition}'`)) return false;
  await Promise.all(urls.map((url, i) => cache.put(url, answers[i])));
  return true;
}

async function newest(request, clientId, nextId) {
  const isPage = request.mode === 'navigate', id = isPage ? nextId : clientId;
  if (!isPage && kept.has(id)) {
    const found = await inCache(request);
    if (found) return found;
  }
  const answer = whole(request);
  answer.catch(() => {});
  const now = await Promise.race([answer.catch(() => null), new Promise(done => setTimeout(done, PATIENCE_MS, null))]);
  if (now && now.status < 500) return now;
  const found = await inCache(request);
  if (!found) return answer;
  if (kept.size >= PAGES_MAX) kept.clear();
  if (id) kept.add(id);
  return found;
}

// A network may end in the midst of an answer too.
async function whole(request) {
  const answer = await fetch(request);
  if (answer.ok) await answer.clone().arrayBuffer();
  return answer;
}

function inCache(request) { return caches.match(request, { ignoreSearch: true }); }
