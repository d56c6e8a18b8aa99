"""The model, the data of each partition, and how to train and test."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset


class Net(nn.Module):
    """A small network for 8x8 digits."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)
        )

    def forward(self, x):
        return self.layers(x)


class Digits(Dataset):
    """Images with their labels, in dicts as Hugging Face's data sets give them."""

    def __init__(self):
        self.images, self.labels = load_digits(return_X_y=True)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {
            "img": torch.tensor(self.images[i] / 16, dtype=torch.float32),
            "label": int(self.labels[i]),
        }


def load_data(partition_id, num_partitions, batch_size):
    """The training and test data of one client."""
    own = range(partition_id, 1500, num_partitions)
    cut = 4 * len(own) // 5
    digits = Digits()
    trainloader = DataLoader(
        Subset(digits, own[:cut]), batch_size=batch_size, shuffle=True
    )
    return trainloader, DataLoader(Subset(digits, own[cut:]), batch_size=batch_size)


def load_test_data():
    """The images that no client has."""
    return DataLoader(Subset(Digits(), range(1500, 1797)), batch_size=128)


def fit(net, trainloader, epochs, lr, device):
    """Train, and return the mean loss of a batch."""
    net.to(device).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    total = 0.0
    for _ in range(epochs):
        for batch in trainloader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(
                net(batch["img"].to(device)), batch["label"].to(device)
            )
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / (epochs * len(trainloader))


def score(net, testloader, device):
    """The mean loss and the accuracy."""
    net.to(device).eval()
    loss, correct, count = 0.0, 0, 0
    with torch.no_grad():
        for batch in testloader:
            answers, labels = net(batch["img"].to(device)), batch["label"].to(device)
            loss += nn.functional.cross_entropy(answers, labels, reduction="sum").item()
            correct += (answers.argmax(1) == labels).sum().item()
            count += len(labels)
    return loss / count, correct / count
