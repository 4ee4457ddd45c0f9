"""The vector index: exact, stable, safe, and itself again after saving."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from agent_core.errors import RetrievalError
from agent_core.rag.index import VectorIndex
from agent_core.rag.signs import Signs
from agent_core.rag.storage import load_index, save_index
from tests.agent_core.rag_helpers import chunk


def filled(count: int = 60, dimension: int = 24, *, prefilter: bool = False) -> VectorIndex:
    """An index of random unit vectors, always the same."""
    index = VectorIndex("m", prefilter=prefilter)
    vectors = np.random.default_rng(1).normal(size=(count, dimension))
    index.add([chunk(str(n), f"text {n}", even=n % 2 == 0) for n in range(count)], vectors)
    return index


def ids(
    index: VectorIndex, vector: NDArray[np.float32], top_k: int, **options: object
) -> list[str]:
    """Ids of the hits."""
    return [hit.chunk.id for hit in index.search(vector, top_k, **options)]  # type: ignore[arg-type]


def test_search_is_what_sorting_all_cosines_gives() -> None:
    """For every k, more than there are included."""
    index = filled()
    chunks, vectors = index.contents()
    query = np.random.default_rng(2).normal(size=24).astype(np.float32)
    cosines = vectors @ (query / np.linalg.norm(query))
    expected = [chunks[row].id for row in np.argsort(-cosines, kind="stable")]
    for top_k in (1, 5, 59, 60, 99):
        hits = index.search(query, top_k)
        assert [hit.chunk.id for hit in hits] == expected[:top_k]
        assert hits[0].score == pytest.approx(cosines.max(), abs=1e-6)


def test_ties_keep_the_order_of_adding() -> None:
    """Equal vectors come in the order they came in."""
    index = VectorIndex("m")
    index.add([chunk(str(n), "same") for n in range(30)], np.ones((30, 4)))
    assert ids(index, np.ones(4, np.float32), 7) == [str(n) for n in range(7)]


@pytest.mark.parametrize("top_k", [1, 5, 16, 17, 40])
@pytest.mark.parametrize("dimension", [3, 24, 384])
def test_equal_vectors_score_alike_wherever_they_stand(dimension: int, top_k: int) -> None:
    """Among others, after deletions, behind a filter: neither row nor company change a score."""
    random = np.random.default_rng(5)
    vectors = random.normal(size=(1_003, dimension))
    same = list(range(7, 1_003, 41))
    vectors[same] = vectors[0]
    index = VectorIndex("m")
    index.add([chunk(str(n), "t", even=n % 2 == 0) for n in range(1_003)], vectors)
    equal = [str(n) for n in (0, *same)]
    hits = index.search(3 * vectors[0], top_k)
    assert [hit.chunk.id for hit in hits][: len(equal)] == equal[:top_k]
    assert len({hit.score for hit in hits[: len(equal)]}) == 1
    index.delete(["0", "1", "48"])
    rest = [each for each in equal if each not in {"0", "48"}]
    assert ids(index, vectors[0], top_k)[: len(rest)] == rest[:top_k]
    even = [each for each in rest if int(each) % 2 == 0]
    assert ids(index, vectors[0], top_k, where={"even": True})[: len(even)] == even[:top_k]


@pytest.mark.parametrize("scale", [1e30, 1e-30, 1e-42, 3e38])
def test_a_vectors_length_does_not_matter(scale: float) -> None:
    """Even where its square is out of the range of float32."""
    index = VectorIndex("m")
    index.add([chunk(str(n), "t") for n in range(3)], scale * np.eye(3))
    query = scale * np.array([1.0, 0.2, 0.5], dtype=np.float64)
    hits = index.search(query, 2)
    assert [hit.chunk.id for hit in hits] == ["0", "2"]
    assert hits[0].score == pytest.approx(1 / np.sqrt(1.29), abs=1e-3)


def test_little_memory_is_taken_beside_the_vectors() -> None:
    """One row at a time, the spare rows stay few."""
    index = VectorIndex("m")
    for n in range(2_000):
        index.add([chunk(str(n), "t")], np.ones((1, 8)))
    assert len(index._state.vectors) <= 2_000 * 1.05


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "delete"]), st.lists(st.integers(0, 12), max_size=6)),
        max_size=25,
    )
)
def test_changes_leave_what_a_dictionary_would(
    changes: list[tuple[str, list[int]]],
) -> None:
    """Add, replace and delete by id, in any order, with sweeping in between."""
    index, model = VectorIndex("m"), dict[str, int]()
    for step, (what, numbers) in enumerate(changes):
        if what == "add" and numbers:
            vectors = np.eye(40)[[(step + n) % 40 for n in numbers]]
            index.add([chunk(str(n), f"text {step}") for n in numbers], vectors)
            model.update({str(n): (step + n) % 40 for n in numbers})
        elif what == "delete":
            gone = {str(n) for n in numbers}
            assert index.delete(gone) == len(gone & model.keys())
            model = {key: axis for key, axis in model.items() if key not in gone}
    assert len(index) == len(model)
    for axis in range(40):
        right = {key for key, value in model.items() if value == axis}
        hits = index.search(np.eye(40)[axis], 60)
        assert {hit.chunk.id for hit in hits} == model.keys()
        assert {hit.chunk.id for hit in hits if hit.score > 0.5} == right


def test_filters_apply_before_the_ranking() -> None:
    """With and without the first look by signs, and after deletions."""
    for prefilter in (False, True):
        index = filled(6_000, prefilter=prefilter)
        index.delete(["0", "2"])
        query = index.contents()[1][0]
        assert all(int(each) % 2 == 0 for each in ids(index, query, 50, where={"even": True}))
        assert ids(index, query, 5, where={"id": ["0", "4", "5"], "even": True}) == ["4"]
        assert ids(index, query, 5, where=lambda each: False) == []


def test_the_first_look_by_signs_finds_nearly_what_exact_search_finds() -> None:
    """On clustered vectors, as those of texts are; for a 32nd of the memory."""
    random = np.random.default_rng(3)
    centres = random.normal(size=(100, 128))
    noise = 0.7 * random.normal(size=(8_000, 128))
    vectors = (centres[random.integers(0, 100, 8_000)] + noise).astype(np.float32)
    exact, quick = VectorIndex("m"), VectorIndex("m", prefilter=True)
    for index in (exact, quick):
        index.add([chunk(str(n), "t") for n in range(8_000)], vectors)
    queries = vectors[::100] + 0.3 * random.normal(size=(80, 128)).astype(np.float32)
    same = sum(len(set(ids(exact, each, 5)) & set(ids(quick, each, 5))) for each in queries)
    assert same / 400 >= 0.98
    assert Signs(vectors).nbytes <= 0.04 * vectors.nbytes


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.zeros((1, 24)), "zero"),
        (np.full((1, 24), np.nan), "not finite"),
        (np.full((1, 24), np.inf), "not finite"),
        (np.ones((1, 23)), "shape"),
        (np.ones((2, 24)), "shape"),
        ([[1.0, 2.0], [1.0]], "unequal"),
    ],
)
def test_unusable_vectors_are_refused(vectors: object, message: str) -> None:
    """When added and, as long as it is one, when asked for."""
    index = filled()
    with pytest.raises(RetrievalError, match=message):
        index.add([chunk("new", "new")], vectors)  # type: ignore[arg-type]
    assert len(index) == 60
    if isinstance(vectors, np.ndarray) and len(vectors) == 1:
        with pytest.raises(RetrievalError, match=message):
            index.search(vectors[0])


def test_a_saved_index_is_the_same_again(tmp_path: Path) -> None:
    """Mapped from disk, without pickle, and it can be changed and saved over itself."""
    index = filled()
    index.add([chunk("城市", "北京", headings=["指南"], note=None)], np.ones((1, 24)))
    index.delete(["3"])
    save_index(index, tmp_path / "kb")
    loaded = load_index(tmp_path / "kb", "m")
    query = np.ones(24, np.float32)
    assert loaded.search(query, 60) == index.search(query, 60)
    assert isinstance(loaded._state.vectors, np.memmap)
    loaded.add([chunk("new", "new")], -np.ones((1, 24)))
    save_index(loaded, tmp_path / "kb")
    assert ids(load_index(tmp_path / "kb", "m"), -query, 1) == ["new"]
    assert len(list((tmp_path / "kb").iterdir())) == 3


def test_another_models_index_is_refused(tmp_path: Path) -> None:
    """Its scores would mean nothing."""
    save_index(filled(), tmp_path)
    with pytest.raises(RetrievalError, match="'m', not of 'other'"):
        load_index(tmp_path, "other")


def test_a_damaged_index_is_refused(tmp_path: Path) -> None:
    """Whatever is missing, cut, or points out of the folder."""
    with pytest.raises(RetrievalError, match="there is no index"):
        load_index(tmp_path, "m")
    for damage in ("meta", "cut", "chunks", "gone", "path", "pickle"):
        folder = tmp_path / damage
        save_index(filled(), folder)
        vectors, lines = next(folder.glob("*.npy")), next(folder.glob("*.jsonl"))
        meta = json.loads((folder / "index.json").read_text("utf-8"))
        if damage == "meta":
            (folder / "index.json").write_text("[]", "utf-8")
        elif damage == "cut":
            vectors.write_bytes(vectors.read_bytes()[:-100])
        elif damage == "chunks":
            lines.write_text(lines.read_text("utf-8").split("\n")[0], "utf-8")
        elif damage == "gone":
            vectors.unlink()
        elif damage == "path":
            meta["vectors"] = "../cut/" + vectors.name
            (folder / "index.json").write_text(json.dumps(meta), "utf-8")
        else:
            np.save(vectors, np.array([{"a": 1}], dtype=object), allow_pickle=True)
        with pytest.raises(RetrievalError, match=r"build (it|the index) again"):
            load_index(folder, "m")


def test_threads_may_search_while_others_change() -> None:
    """A replaced chunk is always there once, in the old or the new version."""
    index = filled(200)
    failures: list[BaseException] = []

    def search() -> None:
        try:
            for _ in range(150):
                found = ids(index, np.ones(24, np.float32), 300)
                assert len(found) == len(set(found)) == 200
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    random = np.random.default_rng(4)
    for _ in range(150):
        numbers = random.integers(0, 200, 20)
        index.add([chunk(str(n), "new", even=True) for n in numbers], random.normal(size=(20, 24)))
    for thread in threads:
        thread.join(60)
    assert not failures
