"""`Storage`: files of the local disk. `pipeline.BeamStorage` adds remote ones, such as `gs://`."""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from mmt import suggest
from mmt.system import atomic, compression


class Storage:
    """Files of the local disk. Paths are text, so that a subclass can have others (`gs://`)."""

    def is_remote(self, path: str) -> bool:
        """Returns whether a path is elsewhere than on the local disk."""
        return False

    def files(self, name: str) -> list[str]:
        """Returns the file of this name or, for a folder, its files, sorted.

        Hidden files and subfolders are omitted. Raises ValueError if there is no file.
        """
        path = Path(name)
        if not path.is_dir():
            if not compression.exists(path):
                siblings = self.names(str(path.parent))
                raise ValueError(f"{name}: no such file{suggest.hint(path.name, siblings)}")
            return [name]
        visible = [path / child for child in self.names(name) if not child.startswith(".")]
        files = [str(child) for child in visible if child.is_file()]
        if not files:
            raise ValueError(f"{name}: a folder without files")
        return files

    def names(self, folder: str) -> list[str]:
        """Returns the names in a folder, sorted; none if it does not exist."""
        return sorted(os.listdir(folder)) if Path(folder).is_dir() else []

    def exists(self, path: str) -> bool:
        """Returns whether a file exists."""
        return Path(path).is_file()

    def read(self, path: str, start: int = 0) -> Iterator[bytes]:
        """Yields the bytes of a file, decompressed by its suffix, from the `start`-th one."""
        return compression.chunks(Path(path), start)

    def write(self, path: str, content: Iterable[bytes], *, temporary: str) -> None:
        """Writes a file that gets its name when it is complete and on the disk.

        temporary: its path until then, on the same disk.
        """
        try:
            with atomic.disk_errors(Path(path)):
                Path(temporary).parent.mkdir(parents=True, exist_ok=True)
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "wb") as file:
                for piece in content:
                    with atomic.disk_errors(Path(path)):
                        file.write(piece)
                with atomic.disk_errors(Path(path)):
                    file.flush()
                    os.fsync(file.fileno())
            with atomic.disk_errors(Path(path)):
                os.replace(temporary, path)
        except BaseException:
            self.remove(temporary)
            raise

    def remove(self, path: str) -> None:
        """Removes a file, or a folder with its content, if it exists."""
        if Path(path).is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            Path(path).unlink(missing_ok=True)

    def remove_empty(self, folder: str) -> None:
        """Removes a folder if it is empty."""
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
