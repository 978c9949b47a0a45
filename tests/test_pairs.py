import gzip

import pytest

from keras_transformer.datasets import load_pairs, read_pairs


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_two_files_are_read_line_by_line(tmp_path):
    source = write(tmp_path / "a.ko", '\ufeff하나\r\n"둘\r\n\r\nNA\r\n')
    target = write(tmp_path / "a.en", "one\ntwo\nthree\nNA")
    pairs = read_pairs(source, target)
    assert pairs["source"].tolist() == ["하나", '"둘', "NA"]
    assert pairs["target"].tolist() == ["one", "two", "NA"]
    assert pairs.attrs["dropped"] == 1
    assert pairs.attrs["files"] == [str(source), str(target)]


def test_a_table_gives_the_named_columns(tmp_path):
    path = tmp_path / "pairs.tsv.gz"
    path.write_bytes(gzip.compress('en\tko\tid\n"hi\t안녕\t7\n'.encode()))
    pairs = read_pairs(path, source_column="ko", target_column="en")
    assert pairs.loc[0, ["source", "target", "id"]].tolist() == ["안녕", '"hi', "7"]


def test_files_of_different_length_name_the_line(tmp_path):
    source = write(tmp_path / "a.ko", "하나\n둘\n셋\n")
    target = write(tmp_path / "a.en", "one\ntwo\n")
    with pytest.raises(ValueError, match=r"3 and 2; .*a\.en ends after line 2"):
        read_pairs(source, target)
    with pytest.raises(ValueError, match="line 2: expected 2 columns"):
        read_pairs(write(tmp_path / "b.tsv", "source\ttarget\nx\n"))
    with pytest.raises(ValueError, match="no column 'target'"):
        read_pairs(write(tmp_path / "c.tsv", "source\tother\nx\ty\n"))
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_pairs(source, tmp_path / "none.en")
    korean = write(tmp_path / "d.ko", "하나\n", "cp949")
    with pytest.raises(ValueError, match='encoding="cp949"'):
        read_pairs(korean, target)


def test_columns_that_would_be_mixed_up_are_refused(tmp_path):
    path = write(tmp_path / "a.tsv", "ko\ten\tsource\n하나\tone\tweb\n")
    with pytest.raises(ValueError, match="a column 'source' beside"):
        read_pairs(path, source_column="ko", target_column="en")
    with pytest.raises(ValueError, match="'ko' twice"):
        read_pairs(path, source_column="ko", target_column="ko")
    assert read_pairs(path, source_column="ko", target_column="source").shape == (1, 3)


def test_the_bundled_pairs_come_in_three_parts_and_both_directions():
    forward, back = load_pairs("ko", "en"), load_pairs("en", "ko")
    for part, other in zip(forward, back, strict=True):
        assert list(part.columns) == ["id", "source", "target"]
        assert part["source"].tolist() == other["target"].tolist()
        assert part["target"].str.contains("[A-Za-z]").mean() > 0.95
    assert len(forward.train) > len(forward.test) > len(forward.validation) > 0
    with pytest.raises(ValueError, match="source='ko', target='de'"):
        load_pairs("ko", "de")
