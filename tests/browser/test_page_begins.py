"""What a page is told where it cannot begin, and how tabs without a worker share one link."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from chrome import INSECURE_HOST, fresh
from page_node import page_node
from rigs.patience import HANG_S
from site_of_pages import served

from router import connect
from router.rig.process import until

pytestmark = pytest.mark.xdist_group("browser")


async def test_page_without_a_secure_context_says_so_with_the_remedy(devtools: str, port: int) -> None:
    async with fresh(devtools) as browser:
        page = await browser.page(f"http://{INSECURE_HOST}:{port}/test/talk.html")
        await page.until("window.begin")
        said = await page.js("begin({ name: 'talk' }).catch(error => `${error.name}: ${error.message}`)")
        assert said.startswith("InsecureContext: ") and "https" in said and INSECURE_HOST in said


async def test_bad_links_names_and_bodies_are_errors_with_a_sentence(devtools: str, port: int) -> None:
    async with fresh(devtools) as browser:
        page = await browser.page(f"http://127.0.0.1:{port}/test/talk.html")
        await page.until("window.begin")
        for options, words in (
            ("{ invitation: 'hello' }", "there is no link"),
            ("{ invitation: 'upsycle:AAAA' }", "not whole"),
            ("{ name: 'a b' }", "a name has letters"),
        ):
            said = await page.js(f"router.connect({options}).catch(error => `${{error.name}}: ${{error.message}}`)")
            assert said.startswith("RouterError: ") and words in said
        await page.js("router.connect().then(node => { window.alone = node; })")
        assert "no such group" in await page.js("alone.join('nobody').catch(error => error.message)")
        assert "a body is bytes" in await page.js("alone.publish({}, 'text').catch(error => error.message)")


async def test_request_that_comes_twice_at_once_is_signed_once(devtools: str, port: int) -> None:
    """A tab asks again when another engine begins, which may have heard the first request a moment before."""
    async with fresh(devtools) as browser:
        page = await browser.page(f"http://127.0.0.1:{port}/test/talk.html")
        await page.until("window.begin")
        await page.js(
            "import('../router/engine.js').then(async ({ Engine }) => {"
            " window.answers = [];"
            " window.engine = await Engine.open('twice', null, (tab, said) => answers.push(said)); })"
        )
        request = (
            "{ op: 'publish', to: new Uint8Array(engine.key.public), body: new Uint8Array(1), ttl: 60, minutes: 9,"
            " asked: 'one' }"
        )
        await page.js(
            f"Promise.all([[1, true], [2, false], [3, false]].map(([n, isNew]) =>"
            f" engine.hear('tab', {{ ...{request}, n, isNew }})))"
        )
        assert await page.js("answers.map(one => one.re)") == [1, 2, 3]
        assert await page.js("[engine.outbox.size, new Set(answers.map(one => one.answer.id)).size]") == [1, 1]


async def test_what_a_tab_says_before_its_hello_is_signed_when_it_asks_again_in_its_order(
    devtools: str, port: int
) -> None:
    """A second request may reach an engine that begins, while the first went to the one that has ended."""
    async with fresh(devtools) as browser:
        page = await browser.page(f"http://127.0.0.1:{port}/test/talk.html")
        await page.until("window.begin")
        await page.js(
            "Promise.all(['engine', 'tabs'].map(name => import(`../router/${name}.js`))).then(async found => {"
            " window.answers = [];"
            " const [{ Engine }, { Host }] = found, hear = (tab, said) => answers.push(said);"
            " const engine = await Engine.open('again', null, hear), host = new Host(async () => engine);"
            " const held = new Promise(() => {}), to = new Uint8Array(engine.key.public);"
            " await new Promise(is => navigator.locks.request('upsycle tab one', () => { is(); return held; }));"
            " const says = message => host.hear({ tab: 'one', ...message }, said => answers.push(said));"
            " const life = { ttl: 60, minutes: 9 };"
            " const publish = n => ({ op: 'publish', n, asked: `${n}`, to, body: new Uint8Array([n]), ...life });"
            " const asks = (n, isNew) => says({ ...publish(n), isNew });"
            " await Promise.all([asks(2, true), says({ op: 'hello', n: 9 }), asks(1, false), asks(2, false)]);"
            " window.kept = engine.outbox.ids(); })"
        )
        assert await page.js("answers.map(one => one.re)") == [9, 1, 2]
        assert await page.js("kept.join() === answers.slice(1).map(one => one.answer.id).join()")


async def test_key_cannot_be_read_out(devtools: str, port: int) -> None:
    async with fresh(devtools) as browser:
        page = await browser.page(f"http://127.0.0.1:{port}/test/talk.html")
        made = "import('../router/keys.js').then(keys => keys.newKey())"
        shown = f"{made}.then(key => crypto.subtle.exportKey('pkcs8', key.secret))"
        assert await page.js(f"{shown}.then(() => 'read', error => error.name)") == "InvalidAccessError"


async def test_tabs_without_a_worker_share_one_link_and_another_takes_over(
    devtools: str, port: int, tmp_path: Path
) -> None:
    """The first tab holds the link; when it is closed, the second goes on with what it has said meanwhile."""
    got: list[str] = []
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path) as node, trio.open_nursery() as nursery:
            link = await node.invite()
            async with connect(home=node.home, as_name="friend") as app:
                group = await app.join("friends")

                async def listen() -> None:
                    async for message in group:
                        got.append(message.body.decode())

                async def until_got(count: int) -> None:
                    async def has_come() -> bool:
                        return len(got) >= count

                    await until("its coming", has_come)

                nursery.start_soon(listen)
                url = f"http://127.0.0.1:{port}/test/talk.html"
                first = await browser.page(url)
                await first.until("window.begin")
                await first.js("delete window.SharedWorker")
                assert await first.js(f"begin({{ name: 'locks', invitation: '{link}' }})") == "friends"
                second = await browser.page(url)
                await second.until("window.begin")
                await second.js("delete window.SharedWorker")
                assert await second.js("begin({ name: 'locks', group: 'friends' })") == "friends"
                await first.js("say('one', 3)")
                await second.js("say('two', 3)")
                await group.publish(b"to both")
                for page in (first, second):
                    await page.until("told.got.length >= 1")
                assert await first.js("told.away") == [], "a new sign-on that the node asks for is no absence"
                await first.close()
                await second.js("say('three', 3)")
                await group.publish(b"to one")
                await second.until("told.got.length >= 2")
                assert await second.js("told.got") == ["to both", "to one"]
                await until_got(9)
                assert got == [f"{word} {n}" for word in ("one", "two", "three") for n in range(3)]
            nursery.cancel_scope.cancel()


async def test_worker_whose_script_comes_late_takes_over_and_says_nothing_twice(devtools: str, tmp_path: Path) -> None:
    """The tabs do without it, one of them holding the link; it goes on with what is left when that one is closed."""
    with trio.fail_after(HANG_S), served() as site:
        url, got = f"http://127.0.0.1:{site.server_port}/test/talk.html", list[str]()
        site.sends_worker.clear()
        async with fresh(devtools) as browser, page_node(tmp_path) as node:
            link = await node.invite()
            async with connect(home=node.home, as_name="friend") as app:
                group = await app.join("friends")
                first = await browser.page(url)
                await first.until("window.begin")
                assert await first.js(f"begin({{ name: 'late', invitation: '{link}' }})") == "friends"
                await first.js("say('one', 2)")
                site.sends_worker.set()
                second = await browser.page(url)
                await second.until("window.begin")
                assert await second.js("begin({ name: 'late', group: 'friends' })") == "friends"
                await second.js("say('two', 2)")
                await first.close()
                await second.js("say('three', 2)")
                await group.publish(b"to the second")
                await second.until("told.got.length === 1")
                async for message in group:
                    got.append(message.body.decode())
                    if len(got) == 6:
                        break
                assert got == [f"{word} {n}" for word in ("one", "two", "three") for n in range(2)]


async def test_forgetting_page_leaves_its_groups_at_the_node_or_says_that_it_could_not(
    devtools: str, port: int, tmp_path: Path
) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path) as node:
            page = await browser.page(f"http://127.0.0.1:{port}/test/talk.html")
            await page.until("window.begin")
            for name, said in (("first", ""), ("second", "The node could not be told")):
                link = await node.invite()
                assert await page.js(f"begin({{ name: '{name}', invitation: '{link}', as: '{name}' }})") == "friends"
                assert len((await node.run("groups", "--json")).json) == 1
                if said:
                    await node.kill()
                    await page.until("node().state === 'away'")
                found = await page.js("node().forget()")
                assert found.startswith(said) and bool(found) == bool(said)
                if not said:
                    assert (await node.run("groups", "--json")).json == []
            await node.start()
            assert len((await node.run("groups", "--json")).json) == 1, "the guest is away for good, and has not left"
            away = [one for one in (await node.run("peers", "--json")).json if one["name"] == "second"]

            async def is_removed() -> bool:
                return (await node.run("peer", "remove", away[0]["address"])).code == 0

            await until("the removal of the guest", is_removed)
            assert (await node.run("groups", "--json")).json == []


async def test_page_whose_clock_is_a_year_behind_takes_the_nodes(devtools: str, port: int, tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path) as node:
            link = await node.invite()
            async with connect(home=node.home, as_name="friend") as app:
                group = await app.join("friends")
                page = await browser.page(f"http://127.0.0.1:{port}/test/talk.html")
                await page.until("window.begin")
                await page.js("delete window.SharedWorker")
                await page.js("(real => { Date.now = () => real() - 365 * 86400000; })(Date.now)")
                assert await page.js(f"begin({{ name: 'late', invitation: '{link}' }})") == "friends"
                await page.js("say('one', 1)")
                async for message in group:
                    assert message.body == b"one 0"
                    break
                assert any("the clock here is" in one for one in await page.js("told.problems"))


async def test_clock_a_year_ahead_at_the_start_forgets_nothing_that_was_handled(
    devtools: str, port: int, tmp_path: Path
) -> None:
    handled = """new Promise(done => {
      const asked = indexedDB.open('upsycle ahead');
      asked.onsuccess = () => {
        const ids = asked.result.transaction('handled').objectStore('handled').count();
        ids.onsuccess = () => done(ids.result);
      };
    })"""
    with trio.fail_after(HANG_S):
        async with fresh(devtools) as browser, page_node(tmp_path) as node:
            link = await node.invite()
            async with connect(home=node.home, as_name="friend") as app:
                group = await app.join("friends")
                page = await browser.page(f"http://127.0.0.1:{port}/test/talk.html")
                await page.until("window.begin")
                assert await page.js(f"begin({{ name: 'ahead', invitation: '{link}' }})") == "friends"
                for body in (b"one", b"two"):
                    await group.publish(body)
                await page.until("told.got.length === 2")
                await page.until(f"(await {handled}) >= 4")
                await page.close()
                again = await browser.page(f"http://127.0.0.1:{port}/test/talk.html")
                await again.until("window.begin")
                await again.js("delete window.SharedWorker")
                await again.js("(real => { Date.now = () => real() + 365 * 86400000; })(Date.now)")
                assert await again.js("begin({ name: 'ahead', group: 'friends' })") == "friends"
                await again.until("told.problems.some(one => one.includes('the clock here is'))")
                assert await again.js(handled) >= 4, "two messages, and the words in them"
