"""Images or other small files are read from a mounted Drive or bucket, one by one.

## What happens on a T4

A mounted Google Drive or object store pays a round trip for every file. Users measured 300 samples a second falling to
1, and an hour and three quarters to scan 7,480 images that take a minute from the local disk; the GPU waits. A Drive also
stops answering after too many reads.

## How to fix it

Copy one archive to the local disk before training and unpack it there (`/content` on Colab, the NVMe disk of a g4dn), or
read a few large shards instead of many files.

## When it is right to ignore it

When the files are cached locally by the mount (gcsfuse with its file cache on), or when there are only a few of them.
Outputs, checkpoints and single large files on such a mount are not reported.

## Sources

* googlecolab/colabtools#1691 and #352, ultralytics/ultralytics#10340; Google Cloud documentation of `/gcs` mounts and of
  the file cache of gcsfuse 2.0; torchvision 0.28 `datasets/folder.py`. No test here can show it: it takes such a mount
"""

from __future__ import annotations

from collections.abc import Iterator

from t4lint.rule import Candidate, rule
from t4lint.trace import DataRead, Trace

MOUNTS = {
    "/content/drive/": "Google Drive",
    "/content/gdrive/": "Google Drive",
    "/gcs/": "a bucket mounted by gcsfuse",
    "/mnt/gcs/": "a bucket mounted by gcsfuse",
    "/mnt/s3/": "a bucket mounted by s3fs",
    "/mnt/oss/": "a bucket mounted by ossfs",
    "/ossfs/": "a bucket mounted by ossfs",
}
DRIVES = ("drive/MyDrive/", "drive/My Drive/", "gdrive/MyDrive/")


@rule(
    name="dataset-on-network-mount",
    severity="warning",
    summary="A dataset of many files read from a network mount",
    message="The files of this dataset are read one by one from {mount}, which can take a second each, so the T4 waits.",
    help="Copy one archive to the local disk and unpack it there before training.",
    triggers=("content/drive", "content/gdrive", "drive/My", "/gcs/", "/mnt/", "/ossfs/"),
    reads=(DataRead,),
)
def dataset_on_network_mount(trace: Trace) -> Iterator[Candidate]:
    for read in trace.all(DataRead):
        mounted = read.root.test(lambda root: bool(mount_of(str(root))))
        yield Candidate(read, mounted, blame=read.root, words={"mount": mount_of(str(read.root.it))})


def mount_of(root: str) -> str:
    """What is mounted there, or an empty string for an ordinary path."""
    if root.startswith(DRIVES):
        return "Google Drive"
    return next((mount for prefix, mount in MOUNTS.items() if f"{root}/".startswith(prefix)), "")
