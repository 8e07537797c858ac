"""Simple Dockerfiles: what is honoured, what is listed for the provider, what is refused."""
# ruff: noqa: E501 - one case a line

import pytest
from tests.unit.benchmarks.harbor.folders import MINIMAL, PORTABLE, write

from proctor.benchmarks.harbor import load_folder
from proctor.benchmarks.harbor.dockerfile import DockerfileError, instructions

CONTEXT = {
    "environment/a.txt": "a",
    "environment/b.txt": "b",
    "environment/src/main.py": "m",
    "environment/src/deep/x.py": "x",
    "environment/with blank.md": "w",
}


@pytest.fixture
def place(tmp_path):
    """The EnvironmentSpec of a task with this Dockerfile; copies relative to environment/."""

    def read(dockerfile, *parts, base=MINIMAL):
        folder = write(
            tmp_path / "task", base, CONTEXT, {"environment/Dockerfile": dockerfile}, *parts
        )
        task = load_folder(folder)
        assert task.invalid is None, task.invalid
        root = str(folder / "environment")
        copies = [(source.removeprefix(root), inside) for source, inside in task.environment.copies]
        return task.environment, copies

    return read


def refused(tmp_path, dockerfile, base=MINIMAL):
    folder = write(tmp_path / "task", base, CONTEXT, {"environment/Dockerfile": dockerfile})
    return load_folder(folder).invalid


def test_instructions_with_continuations_comments_and_directives():
    text = (
        "# syntax=docker/dockerfile:1\n# escape=`\nFROM a\n\n  # indented\nRUN one `\n"
        "# inside\n\n  && two\nenv X=1\r\n\tLABEL y=`\n"
    )
    found = [(step.line, step.name, step.text) for step in instructions(text)]
    assert found == [
        (3, "FROM", "FROM a"),
        (6, "RUN", "RUN one && two"),
        (10, "ENV", "ENV X=1"),
        (11, "LABEL", "LABEL y="),
    ]


def test_here_documents_are_not_instructions(place):
    spec, copies = place(
        "FROM a\nRUN <<EOF\nWORKDIR /wrong\nCOPY nothing /\nEOF\n"
        "COPY <<-'ONE' <<TWO /x/\nENV A=1\nONE\nENV B=2\nTWO\nWORKDIR /right\n"
    )
    assert spec.workdir == "/right"
    assert spec.env == {}
    assert copies == []
    assert [line.split()[0] for line in spec.build] == ["FROM", "RUN", "COPY"]


def test_workdir_and_env_with_variables(place):
    spec, _ = place(
        "ARG TAG=12\nFROM debian:${TAG}\nARG BASE=/srv\nARG UNSET\nENV A=1 B=\"two words\" C='$A'\n"
        "ENV D $A and ${B}\nENV PATH=/opt/bin:$PATH E=${MISSING:-d}${A:+set}${Z:+no} F=a\\ b\n"
        "WORKDIR $BASE\nWORKDIR app/../web\n"
    )
    assert spec.workdir == "/srv/web"
    assert spec.env == {
        "A": "1",
        "B": "two words",
        "C": "$A",
        "D": "1 and two words",
        "PATH": "/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "E": "dset",
        "F": "a b",
    }


@pytest.mark.parametrize(
    ("line", "copies"),
    [
        ("COPY . /task", [("", "/task")]),
        ("COPY ./ .", [("", "/w")]),
        ("COPY a.txt /x/", [("/a.txt", "/x/a.txt")]),
        ("COPY a.txt /x/y.txt", [("/a.txt", "/x/y.txt")]),
        ("COPY a.txt .", [("/a.txt", "/w/a.txt")]),
        ("COPY a.txt ./", [("/a.txt", "/w/a.txt")]),
        ("COPY a.txt /w", [("/a.txt", "/w/a.txt")]),
        ("COPY a.txt /usr/local/bin", [("/a.txt", "/usr/local/bin/a.txt")]),
        ("COPY /a.txt b.txt two/", [("/a.txt", "/w/two/a.txt"), ("/b.txt", "/w/two/b.txt")]),
        ("COPY *.txt /x", [("/a.txt", "/x/a.txt"), ("/b.txt", "/x/b.txt")]),
        ("COPY src /x", [("/src", "/x")]),
        ("COPY src/ src/", [("/src", "/w/src")]),
        ("COPY s*/main.py /x/", [("/src/main.py", "/x/main.py")]),
        ('COPY ["with blank.md", "/x/"]', [("/with blank.md", "/x/with blank.md")]),
        ('COPY "with blank.md" /x/', [("/with blank.md", "/x/with blank.md")]),
        ("COPY --chown=app:app --link a.txt ${WHERE:-/d}/", [("/a.txt", "/d/a.txt")]),
        ("ADD a.txt /x/", [("/a.txt", "/x/a.txt")]),
        ("copy a.txt /x/", [("/a.txt", "/x/a.txt")]),
    ],
)
def test_copies(place, line, copies):
    spec, found = place(f"FROM a\nWORKDIR /w\n{line}\n")
    assert found == copies
    assert spec.build == ("FROM a",)


def test_what_needs_an_image_is_listed(place):
    spec, copies = place(
        "FROM a AS build\nRUN make\nFROM b\nCOPY --from=build /out /in\nADD https://example.org/x /x\n"
        "ADD data.tar.gz /y\nCOPY --chmod=755 a.txt /z\nUSER app\nUSER root\n"
        'ENTRYPOINT ["/x"]\nCMD ["y"]\nEXPOSE 80\nVOLUME /v\nHEALTHCHECK NONE\nSHELL ["/bin/sh"]\n'
    )
    assert spec.build == (
        "FROM a AS build",
        "RUN make",
        "FROM b",
        "COPY --from=build /out /in",
        "ADD https://example.org/x /x",
        "ADD data.tar.gz /y",
        "COPY --chmod=755 a.txt /z",
        "USER app",
        'ENTRYPOINT ["/x"]',
    )
    assert copies == [("/a.txt", "/z")]


def test_a_later_stage_starts_from_the_one_it_names(place):
    spec, copies = place(
        "FROM a AS One\nWORKDIR /one\nENV A=1\nCOPY a.txt .\nFROM b\nWORKDIR /two\nFROM one\nENV B=2\n"
    )
    assert (spec.workdir, spec.env) == ("/one", {"A": "1", "B": "2"})
    assert copies == [("/a.txt", "/one/a.txt")]


def test_dockerignore_limits_what_is_copied(place):
    rules = {"environment/.dockerignore": "*.txt\n!b.txt\nsrc/deep\nDockerfile\n.dockerignore\n"}
    _, copies = place("FROM a\nCOPY . /t\nCOPY src /s\n", rules)
    assert copies == [
        ("/b.txt", "/t/b.txt"),
        ("/src/main.py", "/t/src/main.py"),
        ("/with blank.md", "/t/with blank.md"),
        ("/src/main.py", "/s/main.py"),
    ]


def test_compiled_copies_of_modules_stay_out(place):
    cache = {
        "environment/src/__pycache__/main.cpython-311.pyc": b"\0",
        "environment/src/__pycache__/gone.cpython-311.pyc": b"\0",
    }
    _, copies = place("FROM a\nCOPY src /s\n", cache)
    assert [inside for _, inside in copies] == [
        "/s/__pycache__/gone.cpython-311.pyc",  # a file of its own: there is no source beside it
        "/s/deep/x.py",
        "/s/main.py",
    ]


def test_a_link_inside_the_context_is_copied_as_what_it_names(tmp_path):
    folder = write(
        tmp_path / "task", MINIMAL, CONTEXT, {"environment/Dockerfile": "FROM a\nCOPY src /s\n"}
    )
    (folder / "environment/src/link.txt").symlink_to("../a.txt")
    copies = dict(reversed(pair) for pair in load_folder(folder).environment.copies)
    assert copies["/s/link.txt"] == str(folder / "environment/a.txt")


BAD = [
    ("", "there is no FROM instruction"),
    ("WORKDIR /x\nFROM a\n", "line 1: WORKDIR before FROM"),
    ("FROM\n", "line 1: FROM needs an image"),
    ("FROM a\nFROBNICATE x\n", "line 2: unknown instruction FROBNICATE"),
    ("FROM a\n&& oops\n", "line 2: not an instruction: '&& oops'"),
    ("FROM a\nCOPY x\n", "line 2: COPY needs a source and a target"),
    ("FROM a\nCOPY missing.txt /x\n", "line 2: COPY: 'missing.txt' is not in environment/"),
    ("FROM a\nCOPY *.nothing /x\n", "line 2: COPY: '*.nothing' is not in environment/"),
    ("FROM a\nCOPY ../tests /x\n", "line 2: COPY: '../tests' is not in environment/"),
    ("FROM a\nRUN <<EOF\nnever closed\n", "line 2: the here-document 'EOF' never ends"),
    ("FROM a\n" + "COPY * /x/\n" * 1_500, "COPY and ADD name more than 2,000 paths"),
    ("FROM a\nENV A=xx\n" + "ENV A=$A$A$A$A\n" * 30, "the value of A is too long"),
]


@pytest.mark.parametrize(("dockerfile", "message"), BAD, ids=[m[:40] for _, m in BAD])
def test_mistakes_name_the_line(tmp_path, dockerfile, message):
    found = refused(tmp_path, dockerfile)
    assert found is not None
    assert found.startswith("environment/Dockerfile: ")
    assert message in found


def test_ignore_files_out_of_all_proportion_are_refused(tmp_path):
    for rules in ("a\n" * 1_001, "a" * 5_000):
        folder = write(tmp_path / "t", MINIMAL, {"environment/.dockerignore": rules})
        assert (load_folder(folder).invalid or "").startswith("an ignore file has more than")


def test_a_flood_of_single_copies_is_refused(tmp_path):
    files = {f"environment/f{n}": "" for n in range(300)}
    rules = {"environment/.dockerignore": "f0\n"}
    flood = {"environment/Dockerfile": "FROM a\n" + "COPY . /x\n" * 50}
    folder = write(tmp_path / "t", MINIMAL, files, rules, flood)
    assert load_folder(folder).invalid == (
        "environment/Dockerfile: copies more than 10,000 files one by one"
    )


def test_not_utf8(tmp_path):
    assert (
        refused(tmp_path, b"FROM a\nENV A=\xff\n")
        == "environment/Dockerfile is not UTF-8 (byte 13)"
    )


def test_a_portable_task_gets_its_files_relative_to_the_workspace(place):
    spec, copies = place(
        "FROM a\nENV PATH=/x:$PATH B=1\nWORKDIR /app\nCOPY src /app/lib\nCOPY a.txt .\nCOPY src ./\n",
        base=PORTABLE,
    )
    assert copies == [("/src", "lib"), ("/a.txt", "a.txt"), ("/src", ".")]
    assert not spec.absolute_paths
    assert spec.workdir is None
    assert spec.env == {"B": "1"}  # the environment's own PATH knows where python3 is
    assert spec.build == ()


def test_a_portable_task_without_copy_lines_gets_everything_but_the_recipe(place, tmp_path):
    spec, copies = place("FROM a\nRUN true\n", base=PORTABLE)
    assert sorted(inside for _, inside in copies) == [
        "a.txt", "b.txt", "src/deep/x.py", "src/main.py", "with blank.md",
    ]  # fmt: skip
    assert spec.build == ("RUN true",)
    without = write(tmp_path / "other", PORTABLE, CONTEXT, {"environment/Dockerfile": None})
    assert load_folder(without).environment.copies == ((str(without / "environment"), "."),)


def test_a_portable_task_cannot_copy_out_of_its_workspace(tmp_path):
    found = refused(tmp_path, "FROM a\nWORKDIR /app\nCOPY a.txt /etc/a.txt\n", PORTABLE)
    assert found == (
        "environment/Dockerfile: a portable task can only copy into its WORKDIR (/app), "
        "not to /etc/a.txt"
    )


def test_reading_errors_are_of_one_kind():
    with pytest.raises(DockerfileError):
        instructions("FROM a\n???\n")
