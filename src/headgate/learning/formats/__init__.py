"""Image data sets as they lie on disk, recognised by what the files hold rather than by what they are called.

Four layouts are read: idx (plain or gzip), CIFAR-10's binary distribution, folders of pictures and the
hub's parquet. File names only decide which split a file belongs to, never what it is; where a name
promises a format which the bytes do not keep, the file counts as damaged and is named in the error.
Everything is read into memory as uint8; nothing is cached and nothing from a file is ever executed.
"""

from headgate.learning.formats.detect import CifarRecords, ImageFolder, recognise
from headgate.learning.formats.idx import IdxFiles, idx_shape, read_idx
from headgate.learning.formats.images import decode
from headgate.learning.formats.types import Labels, PictureFiles, Pictures, Pixels
