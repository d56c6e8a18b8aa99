"""Draws docs/figures/gate.svg: one run in twenty seconds, as an animated picture that every browser plays by itself.

python tools/recording.py                a run of digits, made for it in a temporary folder
python tools/recording.py RUN            a run folder: its first policy and seed
python tools/recording.py --at 12        one round, standing still, to look at

Price, gate, buffers, money and accuracy are those of the record, round by round. Nothing is drawn that did not happen.
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import headgate

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "figures" / "gate.svg"
SECONDS = 20.0
RECIPE = ("digits", "run.rounds=40", "run.seeds=1", 'run.policies=["headgate"]')
WIDE, HIGH = 760, 330
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24303c } .s { font-size: 11px; fill: #5b6875 } .b { font-weight: 600 }
.card { fill: #fbfcfd; stroke: #d5dbe1 } .line { fill: none; stroke-width: 2 } .axis { stroke: #aab4be }
.price { stroke: #b4552d } .dot { fill: #b4552d } .learnt { stroke: #1f7a5c } .at { fill: #1f7a5c }
.frame { fill: none; stroke: #8995a1 } .held { fill: #7fb2d9 } .new { fill: #1668a8 } .gate { fill: #3a4653 }
.money { fill: #c9a227 } .pace { stroke: #24303c; stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) {
text { fill: #e6ebf0 } .s { fill: #a3afbb } .card { fill: #161b21; stroke: #37414c } .axis { stroke: #55616d }
.price { stroke: #e58a5f } .dot { fill: #e58a5f } .learnt { stroke: #52c49a } .at { fill: #52c49a }
.frame { stroke: #74808c } .held { fill: #2f6592 } .new { fill: #7cc0f4 } .gate { fill: #c3ccd5 }
.money { fill: #dcb94a } .pace { stroke: #e6ebf0 } }
"""


@dataclass(frozen=True)
class Recorded:
    """What happened in each round of one run."""

    price: list[float]
    admitted: list[list[int]]
    held: list[list[int]]
    left: list[float]
    accuracy: list[float]
    buffers: list[int]
    money: float

    @property
    def rounds(self) -> int:
        return len(self.price)


def recorded(folder: Path) -> Recorded:
    """The first policy and seed of a run folder."""
    run = headgate.open(folder)
    one = {"policy": run.frame["policy"][0], "seed": run.frame["seed"][0]}
    own, clients = (table.filter(**one).sort("t") for table in (run.frame, run.clients))
    told = run.folders[0]
    money = float(told.config["system"]["budget"]) * own.height
    spent = own["spend"].cum_sum().to_list()
    seen = own["test_accuracy"].forward_fill().fill_null(0.0).to_list()
    return Recorded(
        own["price"].to_list(),
        clients["admitted"].to_list(),
        clients["held"].to_list(),
        [money - each for each in spent],
        seen,
        list(told.buffers),
        money,
    )


class Film:
    """The picture, as it plays, or as it is in one round."""

    def __init__(self, run: Recorded, at: int | None = None) -> None:
        self.run, self.at, self.parts = run, at, list[str]()

    def put(self, text: str) -> None:
        self.parts.append(text)

    def moving(self, tag: str, how: str, smooth: bool = True, **values: list[float]) -> None:
        """A shape whose attributes have a value in each round."""
        if self.at is not None:
            now = " ".join(f'{name}="{own[self.at]:.1f}"' for name, own in values.items())
            self.put(f"<{tag} {how} {now}/>")
            return
        mode = "linear" if smooth else "discrete"
        values = {name: [*own, own[-1]] if smooth else own for name, own in values.items()}  # a round takes as long either way
        moves = "".join(
            f'<animate attributeName="{name}" dur="{SECONDS:g}s" repeatCount="indefinite" calcMode="{mode}" '
            f'values="{";".join(f"{each:.1f}" for each in own)}"/>'
            for name, own in values.items()
        )
        begin = " ".join(f'{name}="{own[0]:.1f}"' for name, own in values.items())
        self.put(f"<{tag} {how} {begin}>{moves}</{tag}>")

    def words(self, x: float, y: float, said: list[str], kind: str = "", anchor: str = "start") -> None:
        """A text that is another one in each round: a strip of all of them behind a window of one line."""
        if self.at is not None:
            self.put(f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{said[self.at]}</text>')
            return
        name = f"w{len(self.parts)}"
        lines = "".join(
            f'<text x="{x}" y="{y + 20 * i}" class="{kind}" text-anchor="{anchor}">{each}</text>' for i, each in enumerate(said)
        )
        strip = ";".join(f"0 {-20 * i}" for i in range(len(said)))
        self.put(
            f'<clipPath id="{name}"><rect x="{x - 300}" y="{y - 14}" width="600" height="19"/></clipPath>'
            f'<g clip-path="url(#{name})"><g>{lines}<animateTransform attributeName="transform" type="translate" '
            f'dur="{SECONDS:g}s" repeatCount="indefinite" calcMode="discrete" values="{strip}"/></g></g>'
        )

    def curve(self, kind: str, dot: str, x: float, y: float, wide: float, high: float, values: list[float], top: float) -> None:
        """A line that is drawn from left to right, with a dot at its end."""
        across = [x + wide * i / (self.run.rounds - 1) for i in range(self.run.rounds)]
        up = [y + high - high * value / top for value in values]
        self.put(f'<path class="axis" d="M{x} {y + high}h{wide}"/>')
        name = f"c{len(self.parts)}"
        self.put(f'<clipPath id="{name}">')
        self.moving("rect", f'x="{x - 3}" y="{y - 6}" height="{high + 12}"', width=[each - x + 3 for each in across])
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, up, strict=True))
        self.put(f'</clipPath><polyline clip-path="url(#{name})" class="line {kind}" points="{points}"/>')
        self.moving("circle", f'class="{dot}" r="4"', cx=across, cy=up)

    def drawn(self) -> str:
        run = self.run
        new = [sum(each) for each in run.admitted]
        places = sum(run.buffers)
        self.put(f'<rect class="card" x=".5" y=".5" width="{WIDE - 1}" height="{HIGH - 1}" rx="8"/>')
        # what a sample costs
        self.words(24, 30, [f"price of a sample: {each:.2f}" for each in run.price], "b")
        self.curve("price", "dot", 24, 44, 250, 84, run.price, max(run.price))
        # the gate, as far open as places are renewed
        self.put('<text x="300" y="30" class="b">gate</text><rect class="frame" x="306" y="44" width="18" height="84"/>')
        shut = [84 * (1 - each / places) for each in new]
        self.moving("rect", 'class="gate" x="306" y="44" width="18"', smooth=False, height=shut)
        self.words(315, 146, [f"{each} in" for each in new], "s", "middle")
        # who holds how much, and what of it is new
        self.put('<text x="356" y="30" class="b">buffers of the clients</text>')
        wide = min(30.0, 360 / len(run.buffers) - 6)
        most = max(run.buffers)
        for m, room in enumerate(run.buffers):
            x, high = 356 + m * (wide + 6), 84 * room / most
            held, fresh = ([84 * each[m] / most for each in own] for own in (run.held, run.admitted))
            self.moving("rect", f'class="held" x="{x:.1f}" width="{wide:.1f}"', False, y=[128 - h for h in held], height=held)
            self.moving("rect", f'class="new" x="{x:.1f}" width="{wide:.1f}"', False, y=[128 - f for f in fresh], height=fresh)
            self.put(f'<rect class="frame" x="{x:.1f}" y="{128 - high:.1f}" width="{wide:.1f}" height="{high:.1f}"/>')
        self.put('<rect class="new" x="356" y="137" width="9" height="9"/>')
        self.put('<text x="371" y="146" class="s">bought in this round</text>')
        # money, beside an even pace
        self.words(24, 186, [f"money left: {each:,.0f} of {run.money:,.0f}" for each in run.left], "b")
        self.put('<rect class="frame" x="24" y="198" width="300" height="16"/>')
        self.moving("rect", 'class="money" x="24" y="198" height="16"', width=[300 * each / run.money for each in run.left])
        even = [24 + 300 * (1 - (t + 1) / run.rounds) for t in range(run.rounds)]
        self.moving("line", 'class="pace" y1="194" y2="218"', x1=even, x2=even)
        self.put('<text x="24" y="234" class="s">dashed: the same every round</text>')
        self.words(24, 290, [f"round {t + 1} of {run.rounds}" for t in range(run.rounds)], "b")
        # what was learnt
        best = [max(run.accuracy[: t + 1]) for t in range(run.rounds)]
        self.words(356, 186, [f"best test accuracy so far: {100 * each:.1f} %" for each in best], "b")
        self.put('<text x="722" y="300" class="s">40 %</text><text x="722" y="208" class="s">100</text>')
        self.curve("learnt", "at", 356, 200, 360, 96, [max(each - 0.4, 0.0) for each in best], 0.6)
        label = "One run: the gate opens while a sample is cheap, buffers fill, money is spent, accuracy rises"
        size = f'viewBox="0 0 {WIDE} {HIGH}" width="{WIDE}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">'
        return "\n".join([head, f"<style>{STYLE}</style>", *self.parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path, help="a run folder")
    parser.add_argument("--at", type=int, help="a round, from 1 on: that one alone, standing still")
    parser.add_argument("--out", type=Path, default=PICTURE)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        where = asked.run
        if where is None:
            where = Path(folder) / "run"
            headgate.run(headgate.load(*RECIPE), where, quiet=True)
        run = recorded(where)
    if asked.at is not None and not 1 <= asked.at <= run.rounds:
        sys.exit(f"--at {asked.at}: must be 1 to {run.rounds}")
    text = Film(run, None if asked.at is None else asked.at - 1).drawn()
    asked.out.write_text(text, "utf-8")
    print(f"{asked.out}: {len(text) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
