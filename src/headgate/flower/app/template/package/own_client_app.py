"""A client: headgate admits what was ordered into a store that survives it; task.py trains on what it holds."""

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from headgate.flower import headgate_client
from headgate.flower.client import HeldSamples

from . import task

app = ClientApp()


@headgate_client(app, source=task.source)
def train(message: Message, context: Context, held: HeldSamples) -> Message:
    model = {name: array.numpy() for name, array in message.content.array_records["arrays"].items()}
    x, y = held.arrays()
    after = task.train(model, x, y)
    arrays = ArrayRecord({name: Array(array) for name, array in after.items()})
    return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": len(y)})}), reply_to=message)
