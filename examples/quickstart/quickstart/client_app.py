"""What a client does."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quickstart.task import Net, fit, load_data, score

app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    """Train the model on local data."""
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    partition_id, num_partitions = (
        context.node_config["partition-id"],
        context.node_config["num-partitions"],
    )
    batch_size = context.run_config["batch-size"]
    trainloader, _ = load_data(partition_id, num_partitions, batch_size)
    loss = fit(
        model,
        trainloader,
        context.run_config["local-epochs"],
        msg.content["config"]["lr"],
        device,
    )
    metrics = MetricRecord(
        {"train_loss": loss, "num-examples": len(trainloader.dataset)}
    )
    content = RecordDict(
        {"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}
    )
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    """Evaluate the model on local data."""
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    partition_id, num_partitions = (
        context.node_config["partition-id"],
        context.node_config["num-partitions"],
    )
    _, testloader = load_data(
        partition_id, num_partitions, context.run_config["batch-size"]
    )
    loss, accuracy = score(model, testloader, device)
    metrics = MetricRecord(
        {
            "eval_loss": loss,
            "eval_acc": accuracy,
            "num-examples": len(testloader.dataset),
        }
    )
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)
