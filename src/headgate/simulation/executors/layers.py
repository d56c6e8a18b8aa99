"""Tests of torch modules for executors that compute the layers themselves."""

from typing import TypeGuard

from torch import nn


def is_chain(module: nn.Module) -> TypeGuard[nn.Sequential]:
    """Return whether a module does nothing but call its layers in order: a Sequential,
    or a subclass with the same `forward`.

    A module is not a chain if it or a part of it does more, through a hook or a
    `forward` set on the instance.
    """
    if not isinstance(module, nn.Sequential):
        return False
    own = type(module)
    chained = (own.forward, own.__call__, own.__iter__) == (
        nn.Sequential.forward,
        nn.Module.__call__,
        nn.Sequential.__iter__,
    )
    return chained and not any(_does_more(each) for each in module.modules())


def _does_more(module: nn.Module) -> bool:
    hooks = (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
    )
    return "forward" in vars(module) or any(hooks)


def is_linear(model: nn.Module) -> bool:
    """Return whether the module consists of exactly a Flatten and a Linear; this
    depends on its layers, not on a name.
    """
    if not is_chain(model) or len(model) != 2:
        return False
    flatten, linear = model
    return (
        type(flatten) is nn.Flatten and is_plain(flatten) and type(linear) is nn.Linear
    )


def is_plain(module: nn.Module) -> bool:
    """Return whether a layer has plain settings: a convolution is square, with stride
    1, one group and zero padding; a max pooling has adjacent square windows; a Flatten
    keeps only the sample dimension. Other layers are always plain."""
    if isinstance(module, nn.Conv2d):
        plain = (
            module.stride,
            module.dilation,
            module.groups,
            module.padding_mode,
        ) == ((1, 1), (1, 1), 1, "zeros")
        return plain and min(side(module.kernel_size), side(module.padding)) >= 0
    if isinstance(module, nn.MaxPool2d):
        k = side(module.kernel_size)
        whole = (
            0 < k < 256
            and side(module.stride) == k
            and side(module.padding) == 0
            and not module.ceil_mode
        )
        return whole and side(module.dilation) == 1 and not module.return_indices
    return not isinstance(module, nn.Flatten) or (module.start_dim, module.end_dim) == (
        1,
        -1,
    )


def side(size: int | str | tuple[int, ...]) -> int:
    """Return the side of a square size, or −1 if the size is not square or not a
    number.
    """
    one, *others = {*size} if isinstance(size, tuple) else {size}
    return one if isinstance(one, int) and not others else -1
