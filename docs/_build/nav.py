"""Pages that are listed but not (yet) written are left out of the navigation."""

from pathlib import Path


def on_config(config, **kwargs):
    """Filter the navigation before it is built."""
    config.nav = [entry for entry in (_present(entry, Path(config.docs_dir)) for entry in config.nav) if entry]
    return config


def _present(entry, folder):
    if isinstance(entry, str):
        return entry if (folder / entry).is_file() else None
    ((title, inside),) = entry.items()
    if isinstance(inside, list):
        kept = [item for item in (_present(item, folder) for item in inside) if item]
        return {title: kept} if kept else None
    return entry if (folder / inside).is_file() else None
