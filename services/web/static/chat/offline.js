// The page without a network: what it loaded before, as it was; the newest whenever the node answers.
const CACHE = 'chat 1';

self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', event => event.waitUntil(self.clients.claim()));
self.addEventListener('message', event => event.waitUntil(caches.open(CACHE).then(cache => Promise.all(event.data.map(url => cache.add(url).catch(() => {}))))));
self.addEventListener('fetch', event => {
  const { request } = event;
  if (request.method === 'GET' && request.cache !== 'no-store' && new URL(request.url).origin === location.origin) event.respondWith(newest(request));
});

self.addEventListener('notificationclick', event => {
  event.notification.close();
  event.waitUntil(self.clients.matchAll({ type: 'window' }).then(([first]) => first ? first.focus() : self.clients.openWindow('./')));
});

async function newest(request) {
  const cache = await caches.open(CACHE);
  try {
    const answer = await fetch(request);
    if (answer.ok) await cache.put(request, answer.clone());
    return answer;
  } catch (error) {
    const kept = await cache.match(request, { ignoreSearch: true });
    if (kept) return kept;
    throw error;
  }
}
