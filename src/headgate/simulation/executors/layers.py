"""What executors that do a module's layers themselves ask of them."""

from typing import TypeGuard

from torch import nn


def is_chain(module: nn.Module) -> TypeGuard[nn.Sequential]:
    """Whether its layers, one after the other, are all that it does: a Sequential, or a subclass that leaves `forward` alone.

    Where a call of it or of a part of it does anything else, by a `forward` of its own or by a hook, it is none.
    """
    if not isinstance(module, nn.Sequential):
        return False
    own = type(module)
    chained = (own.forward, own.__call__, own.__iter__) == (nn.Sequential.forward, nn.Module.__call__, nn.Sequential.__iter__)
    return chained and not any(_does_more(each) for each in module.modules())


def _does_more(module: nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return "forward" in vars(module) or any(hooks)


def is_linear(model: nn.Module) -> bool:
    """Whether the module is exactly a Flatten and a Linear: the layers are looked at, not a name."""
    if not is_chain(model) or len(model) != 2:
        return False
    flatten, linear = model
    return type(flatten) is nn.Flatten and is_plain(flatten) and type(linear) is nn.Linear


def is_plain(module: nn.Module) -> bool:
    """A convolution that is square, of stride 1 and one group, padded with zeros; a pooling of square windows side by side;
    a Flatten of all but the samples. Other layers always are."""
    if isinstance(module, nn.Conv2d):
        plain = (module.stride, module.dilation, module.groups, module.padding_mode) == ((1, 1), (1, 1), 1, "zeros")
        return plain and min(side(module.kernel_size), side(module.padding)) >= 0
    if isinstance(module, nn.MaxPool2d):
        k = side(module.kernel_size)
        whole = 0 < k < 256 and side(module.stride) == k and side(module.padding) == 0 and not module.ceil_mode
        return whole and side(module.dilation) == 1 and not module.return_indices
    return not isinstance(module, nn.Flatten) or (module.start_dim, module.end_dim) == (1, -1)


def side(size: int | str | tuple[int, ...]) -> int:
    """The one number of a size that is the same both ways, −1 if there is none."""
    one, *others = {*size} if isinstance(size, tuple) else {size}
    return one if isinstance(one, int) and not others else -1
