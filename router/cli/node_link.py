"""A node's own link: its key and the addresses where others reach it, so that they can make it their neighbour
(R-D9)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from router.cli.exits import Exit, Failure
from router.cli.given_link import link_from
from router.cli.output import note
from router.core.service.roles import Role
from router.core.wire.address import (
    AddressSource,
    Reach,
    TransportAddress,
    addresses_of_node,
    reach_of,
    refusal_of,
)
from router.core.wire.advert import EXPIRY_S, Advertisement, make_advertisement
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.invitation import Invitation, parse_peer_link
from router.core.wire.lifetime import expiry_min
from router.core.wire.link_text import ADVERTISEMENT, INVITATION
from router.core.wire.reasons import Reason
from router.service.plugins import UnknownService, load_role
from router.settings import keyring
from router.settings.config import Config
from router.settings.config_services import instances, key_name
from router.settings.home import Home
from router.transport import contract as transport


class LinkContents(NamedTuple):
    """The contents of a node's link: its key, and the URLs to dial it at."""

    key: PublicKey
    urls: tuple[str, ...]


def addresses(config: Config) -> tuple[TransportAddress, ...]:
    """Return the addresses at which others reach this node: those of `node.advertise`, else those it listens on."""
    return addresses_of_node(config.node.advertise or config.node.listen)


def own_link(key: SigningKey, home: Home, config: Config) -> str:
    """Return the link of this node, with the keys of its public services; raise `Failure` if others cannot reach it.

    Its revision is 0, so that it gives way to the node's own advertisements while it runs."""
    found = addresses(config)
    if not found:
        said = "others cannot reach this node, so it has no link"
        raise Failure(Exit.USAGE, f"{said}: name an address they reach it at in node.advertise, or in node.listen")
    home.check_format()  # a key that is missing is made
    services = {
        role.advertised_as: keyring.load_or_create(home, key_name(name)).public for role, name in _public_roles(config)
    }
    made = make_advertisement(key, found, services=services, rev=0, expiry_min=expiry_min(time.time() + EXPIRY_S))
    return made.text()


def _public_roles(config: Config) -> Iterator[tuple[Role, str]]:
    """Yield the roles of the public services that can be loaded, each with the service's name."""
    for one in instances(config.node.services):
        if one.name not in config.node.services_public:
            continue
        try:
            role = load_role(one.module)
        except UnknownService as error:
            note(f"{one.name} is left out of the link: {error}")
            continue
        if role is not None:
            yield role, one.name


def given_peer(given: str) -> Advertisement | Invitation:
    """Return the node's link or the invitation that was given: as text, in a file, in a picture or on standard input.

    Raise `BadText` or `Failure`.
    """
    return parse_peer_link(link_from(given, ADVERTISEMENT, INVITATION))


def linked(found: Advertisement) -> LinkContents:
    """Return the node that a link describes. The link's time does not count, as a person passes it on."""
    return LinkContents(found.router, dialled(found.addresses, AddressSource.OPERATOR))


def dialled(addresses: Iterable[TransportAddress], source: AddressSource) -> tuple[str, ...]:
    """Return the URLs of a link at which its node can be dialled; raise `Failure` if there are none."""
    urls, problems, every = [], [], tuple(addresses)
    for one in every:
        refused = refusal_of(one, source, on_loopback=True)
        try:
            transport.check(one.url)
        except transport.InvalidUrl as error:
            refused = refused or (Reason.UNSUPPORTED, str(error))
        if refused is None:
            urls.append(one.url)
        else:
            problems.append(refused[1])
    if not urls:
        said = "; ".join(problems) or "the link names no address that this version knows"
        raise Failure(Exit.USAGE, f"that node cannot be dialled: {said}")
    if all(reach_of(one.host) is Reach.LOOPBACK for one in every):
        note("that link leads back to this machine: it works only for a node that runs here")
    return tuple(urls)
