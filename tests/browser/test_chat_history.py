"""What the chat keeps on a device: the newest lines of each group, also of what an earlier form of it had kept."""

from __future__ import annotations

import pytest
from chrome import fresh

pytestmark = pytest.mark.xdist_group("browser")
FILLED = """
(async () => {
  const db = await new Promise((done, failed) => {
    const asked = indexedDB.open('chat history', 1);
    asked.onupgradeneeded = () =>
      asked.result.createObjectStore('lines', { autoIncrement: true }).createIndex('id', 'id', { unique: true });
    Object.assign(asked, { onsuccess: () => done(asked.result), onerror: failed });
  });
  await new Promise((done, failed) => {
    const run = db.transaction('lines', 'readwrite'), lines = run.objectStore('lines');
    lines.add({ id: 'other', group: 'b' });
    for (let at = 0; at < 2005; at++) lines.add({ id: `${at}`, group: 'a' });
    Object.assign(run, { oncomplete: done, onabort: failed });
  });
  db.close();
  const { openHistory } = await import('/chat/history.js'), troubles = [];
  const history = await openHistory(said => troubles.push(said));
  for (const id of ['new', 'newer', 'new']) await history.add({ id, group: 'a' });
  const [a, b] = [await history.lines('a'), await history.lines('b')];
  const kept = await new Promise(done => {
    const asked = indexedDB.open('chat history');
    asked.onsuccess = () => {
      const counted = asked.result.transaction('lines').objectStore('lines').count();
      counted.onsuccess = () => done(counted.result);
    };
  });
  return [troubles.length, kept, a.length, a[0].id, a.at(-2).id, a.at(-1).id, b.map(one => one.id).join()];
})()
"""


async def test_chat_keeps_the_newest_lines_of_each_group(devtools: str, port: int) -> None:
    async with fresh(devtools) as browser:
        page = await browser.page(f"http://127.0.0.1:{port}/test/blank.html")
        assert await page.js(FILLED) == [0, 2001, 2000, "7", "new", "newer", "other"]
