"""The model, the data of each partition, and how to train and test."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from headgate.flower.sources import ArraySource


class Net(nn.Module):
    """A small network for 8x8 digits."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x):
        return self.layers(x)


def digits():
    images, labels = load_digits(return_X_y=True)
    return (images / 16).astype(np.float32), labels.astype(np.int64)


def partition(partition_id, num_partitions):
    images, labels = digits()
    return images[partition_id:1500:num_partitions], labels[partition_id:1500:num_partitions]


def source(context):
    return ArraySource(*partition(context.node_config["partition-id"], context.node_config["num-partitions"]))


def load_data(partition_id, num_partitions, batch_size):
    images, labels = partition(partition_id, num_partitions)
    return DataLoader(TensorDataset(torch.from_numpy(images), torch.from_numpy(labels)), batch_size, shuffle=True)


def load_test_data():
    images, labels = digits()
    return DataLoader(TensorDataset(torch.from_numpy(images[1500:]), torch.from_numpy(labels[1500:])), batch_size=128)


def fit(net, trainloader, epochs, lr):
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    total = 0.0
    for _ in range(epochs):
        for x, y in trainloader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / (epochs * len(trainloader))


def test(net, testloader):
    loss, correct, count = 0.0, 0, 0
    with torch.no_grad():
        for x, y in testloader:
            out = net(x)
            loss += nn.functional.cross_entropy(out, y, reduction="sum").item()
            correct += (out.argmax(1) == y).sum().item()
            count += len(y)
    return loss / count, correct / count


test.__test__ = False  # for pytest
