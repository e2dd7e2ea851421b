from pathlib import Path

from purlin.index.demo import demos, python_reference
from purlin.index.records import Document, Skipped, SourceFile


def test_newest_installed_reference_is_used(tmp_path: Path) -> None:
    assert python_reference(tmp_path) is None
    for version in ("3.9", "3.11"):
        page = tmp_path / f"python{version}" / "html" / "library" / "stdtypes.html"
        page.parent.mkdir(parents=True)
        page.touch()
    (tmp_path / "python3").symlink_to(tmp_path / "python3.9")
    assert python_reference(tmp_path) == (tmp_path / "python3.11" / "html").resolve()


def test_demo_corpora_have_sources() -> None:
    demo_of = {demo.name: demo for demo in demos()}

    assert list(demo_of) == ["products", "code", "python"]

    [catalogue] = demo_of["products"].sources()

    assert isinstance(catalogue, SourceFile)

    documents = list(catalogue.read())

    assert len(documents) >= 200
    assert not [record for record in documents if isinstance(record, Skipped)]

    first = next(file for file in demo_of["python"].sources() if isinstance(file, SourceFile))
    document = next(record for record in first.read() if isinstance(record, Document))

    assert str(document.location.url).startswith("https://docs.python.org/3")
