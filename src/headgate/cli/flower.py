"""The commands of Flower: an app to start from, a deployment to try, and what real machines need. Needs headgate[flower]."""

import signal
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.command_group import CommandGroup
from headgate.cli.console import Set
from headgate.cli.learning import show_and_conclude
from headgate.cli.saying import say
from headgate.cli.standing import clients as clients_of_a_run
from headgate.errors import HeadgateError, Interrupted, SettingError
from headgate.progress import counted

if TYPE_CHECKING:
    from headgate.flower.deploy.supervisor import Supervisor

commands = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="""headgate over real clients, on Flower.

    Begin with `headgate flower deploy-example DIR`: an app, a SuperLink and four SuperNodes on this machine, with TLS and
    registered keys, and a run from beginning to end. `headgate flower new DIR` writes the app alone. On real machines:
    `certificates` and `superlink` on the server, `key` and `supernode` on each client, `register` to bind a client to its
    key, `clients` to see how clients stand, and `forget` to remove samples. docs/do/flower.md goes through it all.
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
    say(f"app: {folder} ({experiment.name}, {next(iter(experiment.policies))}, {experiment.system.clients} clients)")
    say(f"next: {folder / 'README.md'}")


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
    if (app.out / "metrics.parquet").is_file():  # it is written after the last round
        _say(f"{app.out}: all its rounds are played, so nothing is left to do; a new folder in place of {folder} begins anew")
    _end_as_by_ctrl_c()
    try:
        with Loopback(folder / "deployment", nodes, _say) as deployment, counted("rounds settled") as tick:
            deployment.run(folder, app.out, tick=tick)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; the same command goes on with {app.out}") from None
    say(f"run folder: {app.out}")
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
        say(path)


@commands.command()
def key(path: Annotated[Path, typer.Argument(metavar="FILE")]) -> None:
    """Make the key by which a SuperNode is known.

    Made on the machine of the SuperNode: FILE is the private key and never leaves it; FILE.pub, beside it, is what gets
    registered with the SuperLink.
    """
    _check_installed()
    from headgate.flower.deploy.certificates import make_node_key

    say(make_node_key(path))


@commands.command()
def superlink(
    folder: Annotated[Path, typer.Argument(metavar="DIR")],
    certificates: Annotated[Path, typer.Option(metavar="DIR", help="Made by `headgate flower certificates`.")],
    host: Annotated[str, typer.Option(help="The address at which SuperNodes come in; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port at which SuperNodes come in.")] = 8000,
    inside: Annotated[int, typer.Option(help="The port of the SuperLink itself, on 127.0.0.1.")] = 8001,
    address: Annotated[str, typer.Option(help="The name in its certificate by which it is reached.")] = "127.0.0.1",
    register: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N=FILE.pub", help="Client N's SuperNode has this public key; may be given again.", show_default=False
        ),
    ] = None,
    front: Annotated[bool, typer.Option(help="Whether to start the front; without it, nginx stands there.")] = True,
) -> None:
    """Run a SuperLink and the front through which SuperNodes reach it, and start again what dies.

    The SuperLink listens on 127.0.0.1 alone: who reaches it may start apps. The front has TLS, passes on what a SuperNode with
    a registered key needs, and nothing else. DIR/nginx.conf is the same front for nginx: use it with --no-front.

    DIR holds the database, logs, which key each client has (clients.keys) and the users' connection. Keys can also be
    registered later: `headgate flower register`.
    """
    _check_installed()
    from headgate.flower.deploy.certificates import Certificates, check_certificate
    from headgate.flower.deploy.door import Door
    from headgate.flower.deploy.nginx import FILE, nginx_text
    from headgate.flower.deploy.superlink import HOST, SuperLink

    if not front and host != HOST:
        raise SettingError(f"--host {host}: without its front a SuperLink listens on {HOST} alone, since it is open to all")
    if port == inside:
        raise SettingError(f"--inside {inside}: the SuperLink and its front need a port each")
    wanted = [_numbered(each) for each in register or ()]
    mark = _mark()
    link = SuperLink(folder.resolve(), inside, mark)
    shown = Certificates(certificates.resolve())
    for path in (shown.authority, shown.server):
        if warning := check_certificate(path):
            _say(f"warning: {warning}")
    door = Door(link, shown, port, host, address)
    link.prepare()
    (link.folder / FILE).write_text(nginx_text(shown, port, address, inside, link.certificates.authority), "utf-8")
    supervisor = _supervisor(mark)
    try:
        supervisor.keep("SuperLink", link)
        for client, public in wanted:
            link.register(client, public)
        if front:
            supervisor.keep("front", door)
    except BaseException:
        _end(supervisor, mark)
        raise
    _say(f"SuperNodes come in at https://{door.where}" if front else f"SuperNodes come in by {link.folder / FILE}")
    _say(f"SuperLink: https://{link.where}, for this machine alone; log in {link.log}")
    _say(f"to run an app: FLWR_HOME={link.connection.parent} flwr run APP")
    _keep_running(supervisor, mark)


@commands.command()
def register(
    folder: Annotated[Path, typer.Argument(metavar="DIR")],
    client: Annotated[int, typer.Argument(metavar="N", min=0)],
    public: Annotated[Path, typer.Argument(metavar="FILE.pub")],
    replace: Annotated[bool, typer.Option("--replace", help="In place of the client's earlier key, then nobody's.")] = False,
) -> None:
    """Register the public key of a client's SuperNode with a SuperLink that is running.

    DIR is the folder of `headgate flower superlink`, on the machine where it runs; N is which client of the recipe this is;
    FILE.pub is what `headgate flower key` left beside the key. A key is for one client and a client has one key: nobody else
    can answer in its name.
    """
    _check_installed()
    from headgate.flower.deploy.superlink import SuperLink

    link = SuperLink(folder.resolve(), 0, _mark())
    if not link.connection.is_file():
        raise SettingError(f"{folder}: is no folder of headgate flower superlink")
    link.register(client, public, replace)
    say(f"client {client}: {public}")


@commands.command()
def supernode(
    folder: Annotated[Path, typer.Argument(metavar="DIR")],
    superlink: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the SuperLink is.")],
    authority: Annotated[Path, typer.Option(metavar="FILE", help="ca.crt of the SuperLink's authority.")],
    key: Annotated[Path, typer.Option(metavar="FILE", help="Made by `headgate flower key`; FILE.pub must be registered.")],
    client: Annotated[int, typer.Option(help="Which client of the recipe this is, from 0.")],
    clients: Annotated[int, typer.Option(help="How many there are in all.")],
    keep: Annotated[bool, typer.Option("--keep", help="Keep the samples of a run that is over.")] = False,
) -> None:
    """Run the SuperNode of one client, and start it again if it dies.

    DIR holds its log and, in DIR/store, what the client has admitted: do not lose it, it was paid for. When a run is over its
    samples are removed there; `headgate flower forget DIR/store` removes them by hand.
    """
    _check_installed()
    from headgate.flower.deploy.certificates import check_certificate
    from headgate.flower.deploy.processes import free_port
    from headgate.flower.deploy.supernode import SuperNode

    if warning := check_certificate(authority):
        _say(f"warning: {warning}")
    mark, home = _mark(), folder.resolve()
    config: dict[str, str | int] = {"partition-id": client, "num-partitions": clients, "headgate-store": str(home / "store")}
    config |= {"headgate-keep": "true"} if keep else {}
    supervisor = _supervisor(mark)
    node = SuperNode(home, superlink, authority.resolve(), key.resolve(), free_port(), mark, config)
    kept = supervisor.keep(f"SuperNode {client}", node)
    _say(f"SuperNode {client}: log in {node.log}")
    _keep_running(supervisor, mark)
    raise HeadgateError(f"SuperNode {client}: refused (Flower's code {kept.given_up}); is {key}.pub registered?")


commands.command("clients")(clients_of_a_run)


@commands.command()
def forget(
    folder: Annotated[Path, typer.Argument(metavar="DIR")],
    sample: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Only the sample with this key; may be given again.", show_default=False),
    ] = None,
) -> None:
    """Remove samples from the stores of this machine's clients.

    DIR holds the stores: DIR/store of `headgate flower supernode`, $HEADGATE_STORE, or ~/.local/state/headgate. Without
    --sample all samples of all runs go. A run that is still played goes on with what is left, and is told how many samples
    were withdrawn.
    """
    _check_installed()
    from contextlib import closing

    from headgate.flower.buffer_store import BufferStore, stores_in

    for client, path in stores_in(folder):
        with closing(BufferStore(path, client)) as store:
            removed = sum(store.erase(key) for key in sample) if sample else sum(map(store.forget, store.experiments()))
        say(f"{path}: {removed} samples removed")


# what they share


def _numbered(text: str) -> tuple[int, Path]:
    client, _, public = text.partition("=")
    if not client.isdecimal() or not public:
        raise SettingError(f"--register {text}: must be the number of a client and its key, as in 0=node-0.key.pub")
    return int(client), Path(public)


def _overrides(set_: list[str] | None, rounds: int | None) -> list[str]:
    return [*(set_ or ()), *([f"run.rounds={rounds}"] if rounds is not None else ())]


def _check_installed() -> None:
    if find_spec("flwr") is None:
        raise SettingError("headgate flower: Flower is not installed; pip install 'headgate[flower]'")


def _say(text: str) -> None:
    say(text, error=True)


def _mark() -> str:
    from secrets import token_hex

    return token_hex(8)


def _supervisor(mark: str) -> "Supervisor":
    from headgate.flower.deploy.processes import executors
    from headgate.flower.deploy.supervisor import Supervisor

    return Supervisor(_say, executors=lambda: executors(mark))


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
