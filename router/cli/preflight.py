"""Checks of a well-formed configuration before the node starts, used by `serve` and `config check`."""

from __future__ import annotations

from collections.abc import Iterator

from router.cli import service_commands
from router.core.service.roles import Role
from router.core.wire import address
from router.core.wire.address import ADDRESSES_MAX, Reach, parse_address, reach_of
from router.core.wire.text import BadText
from router.service import plugins
from router.service.plugins import UnknownService
from router.service.verbs.verb import VerbFault
from router.settings import keyring, own_successions
from router.settings.config import OWNER_URL, Config, Rule
from router.settings.config_services import instances, key_name
from router.settings.config_text import Problem
from router.settings.home import Home, HomeError
from router.transport import contract as transport
from router.transport.contract import InvalidUrl


def rules(home: Home) -> tuple[Rule, ...]:
    """Return the rules for `settings.config.load` and `check`: every URL has a transport that can use it, every service
    can be loaded, no two services have the same role, no two verbs the same word, and no neighbour is the node
    itself."""
    return (
        lambda config: _unusable_urls(home, config),
        lambda config: _unknown_services(home, config),
        _wrong_verbs,
        _doubled_commands,
        lambda config: _itself(home, config),
    )


def check_neighbour(home: Home, address: bytes) -> str:
    """Return why this address cannot be a neighbour of the node in that home; "" if it can."""
    if home.holds_node and keyring.load(home, keyring.NODE).public == address:
        return "this is the node's own address; a neighbour is another node: `router id` there prints its address"
    return ""


def was_own(home: Home, address: bytes) -> bool:
    """Whether the node in that home had this address before its key was rotated."""
    return home.holds_node and bytes(address) in own_successions.former_keys(home.key_path.parent)


def _unusable_urls(home: Home, config: Config) -> Iterator[Problem]:
    for url in config.node.listen:
        try:
            transport.check_listening(url)
            if url != OWNER_URL:
                home.listen_urls((url,))
        except (InvalidUrl, HomeError) as error:
            yield Problem(("node", "listen"), f"node.listen: {error}")
    if len(config.node.advertise) > ADDRESSES_MAX:
        said = f"node.advertise names {len(config.node.advertise)} addresses; at most {ADDRESSES_MAX} fit a link"
        yield Problem(("node", "advertise"), said)
    for url in config.node.advertise:
        try:
            transport.check(url)
            found = parse_address(url)
        except (BadText, InvalidUrl) as error:
            yield Problem(("node", "advertise"), f"node.advertise: {error}")
            continue
        reach = reach_of(found.host)
        if reach in (Reach.UNSPECIFIED, Reach.NOBODY, Reach.LINK_LOCAL):
            yield Problem(("node", "advertise"), f"node.advertise: {url} is no place where others reach this node")
    for at, one in enumerate(config.peers):
        for url in one.urls:
            try:
                transport.check(url)
            except InvalidUrl as error:
                yield Problem(("peers", at, "urls"), f"peers[{at}].urls: {error}")


def _unknown_services(home: Home, config: Config) -> Iterator[Problem]:
    named = instances(config.node.services)
    names = [one.name for one in named]
    roles = dict[str, Role | None]()
    for at, one in enumerate(named):
        place = ("node", "services", at)
        try:
            found = plugins.load(one.module)
        except UnknownService as error:
            yield Problem(place, str(error))
            continue
        roles[one.name] = found.role
        if why := plugins.form_fault(found):
            yield Problem(place, f"the service {one.module} of node.services {why}")
        if names.count(one.name) == 1:  # of a name that stands twice nobody knows whose settings they are
            addresses = _address(home, key_name(one.name)), _address(home, keyring.NODE)
            yield from found.judge(config.services.get(one.name, {}), one.name, *addresses)
    for name, said in plugins.doubled_roles(roles.items()):
        yield Problem(("node", "services", names.index(name)), said)


def faults_beside_rules(config: Config) -> Iterator[Problem]:
    """Yield what is wrong with files of services that the node itself does not load: metrics.py and http.py, which the
    web side asks."""
    for at, one in enumerate(instances(config.node.services)):
        for said in plugins.beside_faults(one.module):
            yield Problem(("node", "services", at), said)


def _address(home: Home, name: str) -> bytes | None:
    """Return the address of the key of that name; None if there is none, or none that can be read, which
    `unusable_keys` reports."""
    if keyring.fault(home, name) or name not in keyring.names(home):
        return None
    return keyring.load(home, name).public


def warnings(config: Config) -> list[str]:
    """Return warnings, with remedies, about a valid configuration that is probably not intended."""
    return [*service_warnings(config), *neighbour_warnings(config)]


def _wrong_verbs(config: Config) -> Iterator[Problem]:
    """Yield why no router can be made with the verbs and parts that are in the tree, and in the folders of services."""
    from router.core.control.verb_finder import load_parts, news_of_verbs, requests_of
    from router.core.control.verb_tables import table_faults, word_faults

    modules = _modules(config)
    try:
        parts = load_parts()
        faults = (
            *table_faults(parts),
            *word_faults(requests_of(modules)),
            *word_faults(news_of_verbs(modules)),
        )
    except VerbFault as error:
        faults = (str(error),)
    yield from (Problem(("node", "services"), said) for said in faults)


def verb_warnings(config: Config) -> Iterator[str]:
    """Yield the verbs that nobody carries out, so that services are refused them, and the parts that hear nothing."""
    from router.core.control.verb_finder import load_parts, requests_of
    from router.core.control.verb_tables import deaf_parts, without_part

    parts = load_parts()
    yield from without_part(parts, requests_of(_modules(config)))
    yield from deaf_parts(parts)


def _modules(config: Config) -> list[str]:
    return [one.module.partition(":")[0] for one in instances(config.node.services)]


def service_warnings(config: Config) -> list[str]:
    """Return the warnings of services about their settings, and those about verbs."""
    return [*verb_warnings(config), *_settings_warnings(config)]


def _settings_warnings(config: Config) -> list[str]:
    public, has_neighbours = config.node.services_public, any(not one.blocked for one in config.peers)
    return [
        said
        for one in instances(config.node.services)
        for said in plugins.load(one.module).warnings(
            config.services.get(one.name, {}), one.name, is_public=one.name in public, has_neighbours=has_neighbours
        )
    ]


def neighbour_warnings(config: Config) -> Iterator[str]:
    """Yield the URLs of neighbours at which this node itself listens."""
    own = [found for found in map(_host_port, config.node.listen) if found]
    for at, one in enumerate(config.peers):
        for url in one.urls:
            found = _host_port(url)
            if found and any(found[1] == port and address.leads_back(found[0], host) for host, port in own):
                said = f"peers[{at}].urls: {url} leads to this node itself, not to a neighbour"
                yield f"{said}; name the address of the other node's machine"


def _host_port(url: str) -> tuple[str, int] | None:
    """Return host and port of a URL; None if it has none or leaves the port to the system."""
    try:
        host, port = transport.place_of(url)
    except InvalidUrl:
        return None
    return (host, port) if port else None


def unusable_keys(home: Home, config: Config) -> Iterator[Problem]:
    """Yield further reasons for `serve` to refuse: an unusable key of the node or a service, or a store without its
    key."""
    kept = (keyring.NODE, *(key_name(one.name) for one in instances(config.node.services)))
    for fault in filter(None, (keyring.fault(home, name) for name in kept)):
        yield Problem(("node",), fault)
    try:
        home.check_key()
    except HomeError as error:
        yield Problem(("node",), str(error))


def _doubled_commands(config: Config) -> Iterator[Problem]:
    """Yield commands that cannot be run, and those that the router or another service has already."""
    from router.cli import COMMANDS

    owner = dict.fromkeys(COMMANDS, "the router itself")
    for at, one in enumerate(instances(config.node.services)):
        module = one.module.partition(":")[0]
        if fault := service_commands.fault(module):
            yield Problem(("node", "services", at), f"the service {one.module} of node.services {fault}")
        for name in service_commands.of_module(module):
            if owner.setdefault(name, module) != module:
                said = f'the service {one.module} of node.services declares the command "{name}", which belongs to'
                yield Problem(("node", "services", at), f"{said} {owner[name]}; rename it in its commands.py")


def _itself(home: Home, config: Config) -> Iterator[Problem]:
    if keyring.fault(home, keyring.NODE):
        return  # `serve` and `unusable_keys` report it
    for at, one in enumerate(config.peers):
        if why := check_neighbour(home, one.address):
            yield Problem(("peers", at, "address"), f"peers[{at}].address: {why}")
