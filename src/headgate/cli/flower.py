"""The commands of Flower: an app to start from, a deployment to try, and what real machines need. Needs headgate[flower]."""

import signal
import sys
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.console import Set
from headgate.cli.learning import show_and_conclude
from headgate.errors import HeadgateError, Interrupted, SettingError
from headgate.progress import counted

if TYPE_CHECKING:
    from headgate.flower.deploy.supervisor import Supervisor

commands = typer.Typer(
    no_args_is_help=True,
    help="""headgate over real clients, on Flower.

    Begin with `headgate flower deploy-example DIR`: an app, a SuperLink and four SuperNodes on this machine, with TLS and
    registered keys, and a run from beginning to end. `headgate flower new DIR` writes the app alone. On real machines:
    `certificates` and `superlink` on the server, `key` and `supernode` on each client. docs/flower.md goes through it all.
    """,
)


class TrainsWith(StrEnum):
    ours = "ours"
    own = "own"


Recipe = Annotated[str, typer.Option(help="A recipe's name (see `headgate recipes`) or a TOML file.")]
Policy = Annotated[
    str | None, typer.Option(help="Its one policy: a section of the recipe, or a kind; default: headgate.", show_default=False)
]
Rounds = Annotated[int | None, typer.Option(help="Rounds; default: the recipe's.", show_default=False)]
Trains = Annotated[
    TrainsWith, typer.Option(help="Who trains: headgate, as the recipe says, or functions of your own (task.py of the app).")
]


@commands.command()
def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR")],
    recipe: Recipe = "digits",
    policy: Policy = None,
    clients: Annotated[
        int | None, typer.Option(help="Clients, with the recipe's money for each; default: the recipe's.", show_default=False)
    ] = None,
    rounds: Rounds = None,
    training: Trains = TrainsWith.ours,
    set_: Set = None,
) -> None:
    """Write a Flower app that runs a recipe.

    DIR is where the app goes, a new or empty folder. `flwr run DIR` plays it: on Flower's simulation engine, or on a
    deployment. The README in it says how.
    """
    _check_installed()
    from headgate.flower.app.write import write_app

    experiment = write_app(folder, recipe, _overrides(set_, rounds), policy, clients, training.value)
    print(f"app: {folder} ({experiment.name}, {next(iter(experiment.policies))}, {experiment.system.clients} clients)")
    print(f"next: {folder / 'README.md'}")


@commands.command("deploy-example")
def deploy_example(
    folder: Annotated[Path, typer.Argument(metavar="DIR")],
    nodes: Annotated[int, typer.Option(help="SuperNodes, one for each client.")] = 4,
    recipe: Recipe = "digits",
    policy: Policy = None,
    rounds: Annotated[int, typer.Option(help="Rounds of a new app; one takes 10 to 40 seconds.")] = 6,
    training: Trains = TrainsWith.ours,
    set_: Set = None,
) -> None:
    """Bring up a SuperLink and SuperNodes on this machine and play the app on them.

    DIR is an app made by `headgate flower new`, or a new folder for one.

    Everything listens on 127.0.0.1 alone, with TLS by an authority of its own and registered keys. Each round is a line on
    stderr: answers, money, accuracy, and who gave no valid answer. SuperNodes that die are started again, and a ServerApp
    that is lost is submitted again and goes on from its ledger: try it with `kill -9`. Logs, keys and the clients' buffers
    lie in DIR/deployment, the run folder in DIR/runs. Ctrl-C ends every process that was started; the same command goes on.
    """
    _check_installed()
    from headgate.flower.app.write import app_settings, write_app
    from headgate.flower.deploy.loopback import Loopback

    if nodes < 1:
        raise SettingError(f"--nodes {nodes}: at least one is needed")
    if not (folder / "pyproject.toml").is_file():
        write_app(folder, recipe, _overrides(set_, rounds), policy, nodes, training.value)
    app = app_settings(folder)
    if app.clients != nodes:
        raise SettingError(f"--nodes {nodes}: the app in {folder} has {app.clients} clients")
    _end_as_by_ctrl_c()
    try:
        with Loopback(folder / "deployment", nodes, _say) as deployment, counted("rounds settled") as tick:
            deployment.run(folder, app.out, tick=tick)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; the same command goes on with {app.out}") from None
    print(f"run folder: {app.out}")
    show_and_conclude([app.out], app.out)


@commands.command()
def certificates(
    folder: Annotated[Path, typer.Argument(metavar="DIR")],
    host: Annotated[
        list[str] | None,
        typer.Option(help="A name or address by which clients reach the SuperLink; may be given again.", show_default=False),
    ] = None,
) -> None:
    """Make a private authority, if there is none in DIR yet, and a certificate for the SuperLink.

    All of them go to DIR. ca.crt goes to every machine; server.pem and server.key stay with the SuperLink; ca.key signs, and
    is best kept offline.
    """
    _check_installed()
    from headgate.flower.deploy.certificates import LOOPBACK, make_certificates

    made = make_certificates(folder, host or LOOPBACK)
    for path in (made.authority, made.authority_key, made.server, made.server_key):
        print(path)


@commands.command()
def key(path: Annotated[Path, typer.Argument(metavar="FILE")]) -> None:
    """Make the key by which a SuperNode is known.

    Made on the machine of the SuperNode: FILE is the private key and never leaves it; FILE.pub, beside it, is what gets
    registered with the SuperLink.
    """
    _check_installed()
    from headgate.flower.deploy.certificates import make_node_key

    print(make_node_key(path))


@commands.command()
def superlink(
    folder: Annotated[Path, typer.Argument(metavar="DIR")],
    certificates: Annotated[Path, typer.Option(metavar="DIR", help="Made by `headgate flower certificates`.")],
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on.")] = 8000,
    address: Annotated[str, typer.Option(help="The name in its certificate by which it is reached.")] = "127.0.0.1",
    register: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.pub", help="A SuperNode's public key; may be given again.", show_default=False),
    ] = None,
) -> None:
    """Run a SuperLink with TLS and node authentication, and start it again if it dies.

    DIR holds its database, its log and the users' connection. The database survives it. Keys can also be registered later:
    call it again with --register while it is down, or use `flwr supernode register` with FLWR_HOME=DIR/user.
    """
    _check_installed()
    from headgate.flower.deploy.certificates import Certificates
    from headgate.flower.deploy.superlink import SuperLink
    from headgate.flower.deploy.supervisor import Supervisor

    mark = _mark()
    link = SuperLink(folder.resolve(), Certificates(certificates.resolve()), port, mark, host, address)
    supervisor = Supervisor(_say)
    supervisor.keep("SuperLink", link)
    try:
        for each in register or ():
            link.register(each)
    except HeadgateError:
        _end(supervisor, mark)
        raise
    _say(f"SuperLink: https://{link.where}; log in {link.log}")
    _say(f"to run an app: FLWR_HOME={link.connection.parent} flwr run APP")
    _keep_running(supervisor, mark)


@commands.command()
def supernode(
    folder: Annotated[Path, typer.Argument(metavar="DIR")],
    superlink: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the SuperLink is.")],
    authority: Annotated[Path, typer.Option(metavar="FILE", help="ca.crt of the SuperLink's authority.")],
    key: Annotated[Path, typer.Option(metavar="FILE", help="Made by `headgate flower key`; FILE.pub must be registered.")],
    client: Annotated[int, typer.Option(help="Which client of the recipe this is, from 0.")],
    clients: Annotated[int, typer.Option(help="How many there are in all.")],
) -> None:
    """Run the SuperNode of one client, and start it again if it dies.

    DIR holds its log and, in DIR/store, what the client has admitted: do not lose it, it was paid for.
    """
    _check_installed()
    from headgate.flower.deploy.processes import free_port
    from headgate.flower.deploy.supernode import SuperNode
    from headgate.flower.deploy.supervisor import Supervisor

    mark, home = _mark(), folder.resolve()
    config: dict[str, str | int] = {"partition-id": client, "num-partitions": clients, "headgate-store": str(home / "store")}
    supervisor = Supervisor(_say)
    node = SuperNode(home, superlink, authority.resolve(), key.resolve(), free_port(), mark, config)
    kept = supervisor.keep(f"SuperNode {client}", node)
    _say(f"SuperNode {client}: log in {node.log}")
    _keep_running(supervisor, mark)
    raise HeadgateError(f"SuperNode {client}: refused (Flower's code {kept.given_up}); is {key}.pub registered?")


# what they share


def _overrides(set_: list[str] | None, rounds: int | None) -> list[str]:
    return [*(set_ or ()), *([f"run.rounds={rounds}"] if rounds is not None else ())]


def _check_installed() -> None:
    if find_spec("flwr") is None:
        raise SettingError("headgate flower: Flower is not installed; pip install 'headgate[flower]'")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _mark() -> str:
    from secrets import token_hex

    return token_hex(8)


def _end_as_by_ctrl_c() -> None:
    """A service manager sends SIGTERM; processes are to be ended then as well."""

    def interrupt(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def _keep_running(supervisor: "Supervisor", mark: str) -> None:
    """Until Ctrl-C, or until every process was given up."""
    import time

    _end_as_by_ctrl_c()
    try:
        while any(each.given_up is None for each in supervisor.kept.values()):
            supervisor.look()
            time.sleep(1)
    except KeyboardInterrupt:
        raise Interrupted("stopped") from None
    finally:
        _end(supervisor, mark)


def _end(supervisor: "Supervisor", mark: str) -> None:
    from headgate.flower.deploy.processes import end

    end(supervisor.processes, mark)
