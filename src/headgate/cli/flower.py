"""The commands for Flower: an example app, a trial deployment, and the files for real
machines. They need headgate[flower].
"""

import signal
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from headgate.cli.console import (
    AsFormat,
    CommandGroup,
    Folder,
    Format,
    Set,
    print_json,
    recipe_overrides,
    say,
)
from headgate.cli.learning import show_and_conclude
from headgate.errors import Interrupted, SettingError

commands = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="""headgate over real clients, on Flower.

    Begin with `headgate flower deploy-example DIR`: an app, a SuperLink and four
    SuperNodes on this machine, with TLS and registered keys, and a run from beginning
    to end. `headgate flower new DIR` writes the app alone. On real machines:
    `certificates` and `superlink` on the server, `key` and `supernode` on each client
    write what nginx, systemd and compose need, `register` binds a client to its key,
    `clients` shows which clients are in quarantine, and `erase` and `forget` remove
    samples. docs/do/flower.md describes all steps.
    """,
)


@commands.callback()
def _check_installed(context: typer.Context) -> None:
    if context.invoked_subcommand != "clients" and find_spec("flwr") is None:
        raise SettingError(
            "headgate flower: Flower is not installed; pip install 'headgate[flower]'"
        )


Recipe = Annotated[
    str, typer.Option(help="A recipe's name (see `headgate recipes`) or a TOML file.")
]
Policy = Annotated[
    str | None,
    typer.Option(
        help="Its one policy: a section of the recipe, or a kind; default: headgate.",
        show_default=False,
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option(
        help="Rounds; default: the recipe's.",
        show_default=False,
    ),
]


@commands.command()
def new(
    folder: Folder,
    recipe: Recipe = "digits",
    policy: Policy = None,
    clients: Annotated[
        int | None,
        typer.Option(
            help="Clients, with the recipe's money for each; default: the recipe's.",
            show_default=False,
        ),
    ] = None,
    rounds: Rounds = None,
    set_: Set = None,
) -> None:
    """Write a Flower app that runs a recipe.

    DIR is a new or empty folder for the app. `flwr run DIR` runs it, on Flower's
    simulation engine or on a deployment, as the app's README describes.
    """
    from headgate.flower.app.write import write_app

    overrides = recipe_overrides(set_, rounds)
    experiment = write_app(folder, recipe, overrides, policy, clients)
    (name,) = experiment.policies
    size = f"{experiment.system.clients} clients"
    say(f"app: {folder} ({experiment.name}, {name}, {size})")
    say(f"next: {folder / 'README.md'}")


@commands.command("deploy-example")
def deploy_example(
    folder: Folder,
    nodes: Annotated[int, typer.Option(help="SuperNodes, one for each client.")] = 4,
    recipe: Recipe = "digits",
    policy: Policy = None,
    rounds: Annotated[
        int, typer.Option(help="Rounds of a new app; one takes 10 to 40 seconds.")
    ] = 6,
    set_: Set = None,
) -> None:
    """Bring up a SuperLink and SuperNodes on this machine and run the app on them.

    DIR is an app made by `headgate flower new`, or a new folder for one.

    Everything listens on 127.0.0.1 alone, behind nginx, with TLS by an authority of its
    own and registered keys. Each round prints a line to stderr: answers, money,
    accuracy, and the clients without a valid answer. Services that die are started
    again, and a ServerApp that is lost is submitted again and continues from its
    ledger: try it with `kill -9`. Logs, keys and the clients' buffers are in
    DIR/deployment, the run folder is in DIR/runs. Ctrl-C ends every process that was
    started; the same command continues the run.
    """
    from headgate.flower.app.write import app_settings, write_app
    from headgate.flower.deploy.deployment import Loopback

    if nodes < 1:
        raise SettingError(f"--nodes {nodes}: at least one is needed")
    if not (folder / "pyproject.toml").is_file():
        write_app(folder, recipe, recipe_overrides(set_, rounds), policy, nodes)
    clients, out = app_settings(folder)
    if clients != nodes:
        raise SettingError(
            f"--nodes {nodes}: the app in {folder} has {clients} clients"
        )
    if (out / "metrics.parquet").is_file():  # this file is written after the last round
        _say(
            f"{out}: all its rounds are finished, so nothing is left to do; a new"
            " folder begins another run"
        )
    # a service manager's SIGTERM acts as Ctrl-C
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Loopback(folder / "deployment", nodes, _say) as deployment:
            deployment.bring_up()
            deployment.run(folder, out)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; the same command goes on with {out}") from None
    say(f"run folder: {out}")
    show_and_conclude([out], out)


@commands.command()
def certificates(
    folder: Folder,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "A name or address by which clients reach the server; may be repeated."
            ),
            show_default=False,
        ),
    ] = None,
) -> None:
    """Make the certificates of a deployment, or check and renew those in DIR.

    ca.crt goes to every machine; server.pem and server.key stay with nginx and the
    SuperLink; ca.key signs, and is best kept offline. A server certificate that ends
    within 30 days is renewed if ca.key is in DIR, with a warning in either case. One
    that has expired is refused: services of `headgate flower superlink` call this
    before they start.
    """
    from headgate.flower.deploy.certificates import FILES, ensure_certificates

    for warning in ensure_certificates(folder.resolve(), host or ()):
        _say(f"warning: {warning}")
    for name in FILES:
        say(folder / name)


@commands.command()
def key(path: Annotated[Path, typer.Argument(metavar="FILE")]) -> None:
    """Make the key that identifies a SuperNode.

    Run this on the machine of the SuperNode: FILE is the private key and never leaves
    it. Register FILE.pub, beside it, with the SuperLink.
    """
    from headgate.flower.keys import make_key

    say(make_key(path))


@commands.command()
def superlink(
    folder: Folder,
    certificates: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Made by `headgate flower certificates`.",
        ),
    ],
    listen: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS:PORT",
            help="Where SuperNodes connect.",
        ),
    ] = "0.0.0.0:8000",
    inside: Annotated[
        int, typer.Option(help="The port of the SuperLink on 127.0.0.1.")
    ] = 8001,
) -> None:
    """Write the files of a server into DIR: nginx.conf, scripts, systemd units and
    compose.yaml.

    The SuperLink listens on 127.0.0.1 alone, because anyone who reaches it may start
    apps; nginx has TLS and forwards the paths that SuperNodes need. The machine, or
    container, must be the SuperLink's own: its other users are trusted. DIR also holds
    the database, the keys of the clients (clients.keys) and Flower's connection for
    `flwr` (FLWR_HOME=DIR/user).
    """
    from headgate.flower.deploy.deployment import write_server

    for path in write_server(folder.resolve(), certificates, listen, inside):
        say(path)


@commands.command()
def supernode(
    folder: Folder,
    superlink: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Where SuperNodes connect.",
        ),
    ],
    authority: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="ca.crt of the server's authority.",
        ),
    ],
    key: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Made by `headgate flower key`; FILE.pub must be registered.",
        ),
    ],
    client: Annotated[
        int, typer.Option(help="The client's number in the recipe, from 0.")
    ],
    clients: Annotated[int, typer.Option(help="The number of all clients.")],
    port: Annotated[
        int, typer.Option(help="The port of the SuperNode on 127.0.0.1.")
    ] = 8002,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the samples of a run that is over.")
    ] = False,
) -> None:
    """Write the files of one client's machine into DIR: the SuperNode's script, systemd
    unit and compose.yaml.

    DIR/store holds the samples that the client has admitted. Do not lose it: they were
    paid for. After a run they are removed there; `headgate flower forget DIR/store`
    removes them by hand.
    """
    from headgate.flower.deploy.deployment import write_node

    for path in write_node(
        folder.resolve(),
        superlink,
        authority.resolve(),
        key.resolve(),
        client,
        clients,
        port,
        keep,
    ):
        say(path)


@commands.command()
def register(
    folder: Folder,
    client: Annotated[
        int,
        typer.Argument(
            metavar="N",
            min=0,
        ),
    ],
    public: Annotated[Path, typer.Argument(metavar="FILE.pub")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the client's earlier key.")
    ] = False,
) -> None:
    """Register the public key of a client's SuperNode with a SuperLink that is running.

    DIR is the folder of `headgate flower superlink`, on the machine where it runs; N is
    the client's number in the recipe; FILE.pub is the file that `headgate flower key`
    wrote beside the key. A client has one key, and each key is for one client, so
    nobody else can answer in its name.
    """
    from headgate.flower.deploy.deployment import register as register_key

    register_key(folder.resolve(), client, public, replace)
    say(f"client {client}: {public}")


@commands.command()
def clients(
    folder: Folder,
    lift: Annotated[
        list[str] | None,
        typer.Option(
            "--lift",
            metavar="N",
            help="End the quarantine of client N, a number or a name; may be repeated.",
            show_default=False,
        ),
    ] = None,
    format_: AsFormat = Format.table,
) -> None:
    """Show the state of each client of a run, or end a quarantine.

    DIR is a run folder of a run on Flower, or the folder of the accounts of a job of
    NVFlare, for which Flower need not be installed. The run may be in progress. When a
    client comes into quarantine, its open orders are settled: samples in valid reports
    are paid, the rest is cancelled. With --lift it gets orders again from the next
    round on; what it then reports of cancelled orders is recorded, and not paid.
    `headgate ledger export DIR` has every order.
    """
    from rich.text import Text

    from headgate.analysis.display import StackedTable, show
    from headgate.books.statement import number_of, opened
    from headgate.escaping import one_line

    with opened(folder, writes=lift is not None) as store:
        for client in lift or ():
            if not store.lift(number_of(store, "lift", client)):
                raise SettingError(f"client {client}: is not in quarantine in {folder}")
        named = store.state.system_ahead().named
        nodes = sorted(store.nodes(), key=lambda node: node.since)
        newest = {node.client: node.node for node in nodes}
        offences = [event for event in store.events() if event.kind in OFFENCES]
        rows = [
            {"node": newest.get(client), **each._asdict()}
            for client, each in sorted(store.clients().items())
        ]

    if format_ is Format.json:
        events = [event._asdict() for event in offences]
        print_json({"clients": rows, "offences": events})
        return
    shown = [{**row, "client": row["name"]} for row in rows]
    lines = [[str(row[name]) for name in COLUMNS] for row in shown]
    show(StackedTable("Clients", COLUMNS, lines))
    for event in offences[-LISTED:]:
        said = f"{event.kind}: {event.reason}"
        line = f"round {event.round}, client {named(event.client)}: {said}"
        show(Text(one_line(line)))


@commands.command()
def erase(
    keys: Annotated[list[str], typer.Argument(metavar="KEY...")],
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the stores.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Erase the samples with these KEYs from the stores of this machine's clients, now
    and for good.

    DIR holds the stores: DIR/store of `headgate flower supernode`; without it
    $HEADGATE_STORE, or ~/.local/state/headgate. A run in progress continues without the
    samples, and its server learns how many. They are not admitted again. Each store
    keeps a receipt.
    """
    from headgate.flower.buffer_store import erase as erase_samples

    for path, receipts in erase_samples(keys, store).items():
        for receipt in receipts:
            say(
                f"{path}: {receipt.key}: {receipt.samples} samples erased,"
                f" {receipt.time}"
            )


@commands.command()
def forget(folder: Folder) -> None:
    """Remove all samples of all runs from the stores of this machine's clients.

    DIR holds the stores, as for `headgate flower erase`. A run in progress continues
    with what it admits from now on.
    """
    from contextlib import closing

    from headgate.flower.buffer_store import BufferStore, stores_in

    for client, path in stores_in(folder):
        with closing(BufferStore(path, client)) as store:
            samples = sum(map(store.forget, store.experiments()))
            say(f"{path}: {samples} samples removed")


# helpers


def _say(text: str) -> None:
    say(text, error=True)


COLUMNS = (
    "client",
    "node",
    "heard",
    "offences",
    "quarantined",
    "lost",
    "withdrawn",
    "erased",
)
"""what the table of clients shows"""
OFFENCES = ("rejected", "quarantined", "lifted")
"""the kinds of events that explain the standing of a client"""
LISTED = 20
"""the most offences that the table shows; JSON has them all"""
