"""What a client does."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch.utils.data import DataLoader

from headgate.flower import headgate_client

from .task import Net, fit, source

app = ClientApp()


@headgate_client(app, source)
def train(msg: Message, context: Context, held) -> Message:
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    trainloader = DataLoader(list(zip(*held.arrays(), strict=True)), context.run_config["batch-size"], shuffle=True)
    loss = fit(model, trainloader, context.run_config["local-epochs"], msg.content["config"]["lr"])
    metrics = {"train_loss": loss, "num-examples": len(trainloader.dataset)}
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord(metrics)})
    return Message(content=content, reply_to=msg)
