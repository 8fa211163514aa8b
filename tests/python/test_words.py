"""Check that the project's prose uses the terms of Delta, Spark and dbt (docs/glossary.md).

A failure names the replacement of each word to avoid. The tests check pages, YAML, comments,
docstrings and messages, but not code: neither identifiers, nor text between backticks.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from jinja2 import Environment

ROOT = Path(__file__).resolve().parents[2]

# The files and folders to check: one line each.
ROOTS = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "data",
    "macros",
    "scripts",
    "dbt_project.yml",
    "docs",
    "models",
    "profiles",
    "seeds",
    "tests/generic",
    "tests/singular",
]

# Written by programs: `make bench`, `make soak`, `make soak-incremental`.
GENERATED = ["docs/benchmarks.md", "docs/soak-incremental.md", "docs/soak-ingestion.md"]


@dataclass(frozen=True)
class Avoided:
    """A word to avoid, as a regular expression of whole words, and what to write instead.

    `unless` is a regular expression; a paragraph that matches it may use the word.
    """

    pattern: str
    instead: str
    unless: str | None = None


KEEP_UP = "maintain incrementally, incremental maintenance"
ANEW = "rebuild, recompute, full refresh"
CHANGED_ROWS = "inserted rows, deleted rows, net change, change set"
IMAGES = "change images: pre-image, post-image"
APPLIED = "applied versions, last applied version"
MEND = "fix, repair; reconcile with the declaration"
STAGE = "staging table"
RETAIN = "retain, retention"
RESUME = "resume, resume from; continue; is still running"
APPLY = "apply"
# A verb, and its object of at most three words: "keep a model up"
OBJECT = r"(?:\s+\S+){0,3}?"

WORDS = [
    Avoided(rf"(?:keep|keeps|kept|keeping){OBJECT}\s+up(?!\s+to\b)", KEEP_UP),
    Avoided(r"(?:look|looks|looked|looking)\s+after", KEEP_UP),
    Avoided(r"anew", ANEW),
    Avoided(r"(?:what|all|that)\s+(?:it|a\s+table|the\s+table)\s+holds", APPLIED),
    Avoided(r"versions?\s+(?:that\s+)?(?:it|they|a\s+table|the\s+table)\s+holds?", APPLIED),
    Avoided(r"versions?\s+held", APPLIED),
    Avoided(r"watermarks?", f"{APPLIED}; *watermark* is for event time", unless=r"\bevent"),
    Avoided(r"touched\s+keys?|keys?\s+touched", "affected keys"),
    Avoided(r"appeared|disappear(?:s|ed|ing)?", CHANGED_ROWS),
    Avoided(r"rows?\s+(?:that|which)\s+(?:came|went|go|goes|left)", CHANGED_ROWS),
    Avoided(r"rows?\s+(?:is|are|was|were)\s+gone", CHANGED_ROWS),
    Avoided(r"images?\s+(?:that\s+)?(?:came|went|come|go)", IMAGES),
    Avoided(r"came\s+(?:or|and)\s+went|came\s+and\s+gone", CHANGED_ROWS),
    Avoided(r"mend(?:s|ed|ing)?", MEND),
    Avoided(rf"(?:bring|brings|brought|bringing){OBJECT}\s+to\s+what\s+is\s+declared", MEND),
    Avoided(r"cut\s+short", "interrupted"),
    Avoided(r"(?:goes|go|went|gone)\s+on", RESUME),
    Avoided(rf"(?:bring|brings|brought|bringing){OBJECT}\s+in", APPLY),
    Avoided(rf"(?:take|takes|took|taken|taking){OBJECT}\s+along", "propagate"),
    Avoided(r"(?:the|a|its|this|no|each)\s+stages?", STAGE),
    Avoided(r"look\s+at\s+the\s+stag(?:e|ing)|the\s+look", "inspect"),
    Avoided(r"forgotten\s+(?:stages?|staging)", "orphaned staging table"),
    Avoided(r"what\s+pays|(?:it|that)\s+pays|when\s+\w+\s+pays", "required by the policy"),
    Avoided(r"ask(?:s|ed)?\s+of", "evaluated on"),
    Avoided(r"answers?\s+for|at\s+night", "owner, on-call contact"),
    # "A person asks to be forgotten" is the law's term.
    Avoided(r"forgets?|forgot|(?<!\bbe\s)forgotten|forgetting", RETAIN),
    Avoided(r"remember(?:s|ed|ing)?", RETAIN),
    Avoided(
        r"audit(?:s|ed|ing)?",
        "reconciliation; audit step (write-audit-publish)",
        unless=r"audit step|write-audit-publish",
    ),
]

# --- the prose of a file: paragraphs with the line on which each begins ---------------------------

Paragraph = tuple[int, str]


def without_code(text: str) -> str:
    """Return the text with code between backticks, addresses and targets of links blanked."""
    text = re.sub(r"`[^`]*`", " ` ", text)
    return re.sub(r"\]\([^)]*\)", "] ", text)


def blocks(text: str) -> Iterator[Paragraph]:
    """Yield paragraphs: an item of a list, a row of a table, or lines up to an empty one."""
    begin, lines = 1, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if lines and (not line.strip() or re.match(r"\s*(?:[-*|#]|\d+\.)\s", line)):
            yield begin, "\n".join(lines)
            lines = []
        if line.strip():
            begin = begin if lines else number
            lines.append(line)


def of_markdown(text: str) -> Iterator[Paragraph]:
    """Yield a page without its fenced code."""
    fenced = re.compile(r"^( *)```.*?^\1```$", flags=re.S | re.M)
    yield from blocks(fenced.sub(lambda block: "\n" * block.group().count("\n"), text))


def of_yaml(text: str) -> Iterator[Paragraph]:
    """Yield the whole text: keys and values are names, the rest descriptions and comments."""
    yield from blocks(re.sub(r"(?m)^\s*# ?(?=\S)", "", text))


def of_sql(text: str) -> Iterator[Paragraph]:
    """Yield comments of SQL and of Jinja, and messages: the texts in Jinja's expressions."""
    for line, kind, value in Environment().lex(text):
        if kind in ("comment", "string"):
            yield line, value
        elif kind == "data":
            # the lines of one comment are one paragraph
            for found in re.finditer(r"--[^\n]*(?:\n\s*--[^\n]*)*|/\*.*?\*/", value, flags=re.S):
                start = line + value[: found.start()].count("\n")
                yield start, re.sub(r"(?m)^\s*--", "", found.group())


def of_python(text: str) -> Iterator[Paragraph]:
    """Yield comments, docstrings and messages; the values of an f-string are an ellipsis."""
    comments = dict[int, str]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments[token.start[0]] = token.string.lstrip("# ")
    for line in comments:
        if line - 1 not in comments:
            last = line
            while last in comments:
                last += 1
            yield line, "\n".join(comments[number] for number in range(line, last))
    pending: list[ast.AST] = [ast.parse(text)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.JoinedStr):
            constants = (v.value if isinstance(v, ast.Constant) else "…" for v in node.values)
            yield node.lineno, "".join(map(str, constants))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        else:
            pending.extend(ast.iter_child_nodes(node))


PROSE: dict[str, Callable[[str], Iterator[Paragraph]]] = {
    ".md": of_markdown,
    ".yml": of_yaml,
    ".sql": of_sql,
    ".py": of_python,
}


def found_in(paragraph: Paragraph) -> Iterator[str]:
    """Yield each word to avoid, its place, and its replacement."""
    begin, text = paragraph
    text = without_code(text)
    for word in WORDS:
        if word.unless and re.search(word.unless, text, flags=re.I):
            continue
        for match in re.finditer(rf"\b(?:{word.pattern})\b", text, flags=re.I):
            line = begin + text[: match.start()].count("\n")
            said = " ".join(match.group().split())
            yield f"{line}: {said!r}, write: {word.instead}"


def files(roots: list[str]) -> Iterator[Path]:
    """Yield the files with prose under these roots."""
    for root in roots:
        path = ROOT / root
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix in PROSE and str(file.relative_to(ROOT)) not in GENERATED:
                yield file


@pytest.mark.parametrize("root", ROOTS)
def test_prose_uses_the_terms_of_the_field(root: str) -> None:
    checked = list(files([root]))
    assert checked
    assert [
        f"{file.relative_to(ROOT)}:{found}"
        for file in checked
        for paragraph in PROSE[file.suffix](file.read_text())
        for found in found_in(paragraph)
    ] == []


# --- the check itself -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        "the table is built anew",
        "a model that is kept up",
        "a strategy cannot keep a model up",
        "macros look after tables",
        "versions that it holds",
        "the watermark of an input",
        "rows of touched keys",
        "rows that disappeared from the input",
        "images that came or went",
        "Mend the contract",
        "a run that was\ncut short",
        "the run brings them in",
        "RESTORE takes the state along",
        "look at the stage",
        "forgotten stages",
        "what pays",
        "is asked of rows",
        "the stream goes on",
        "it went on in the cluster",
        "who answers for it at night",
        "Bronze remembers keys",
        "the audit of a stream",
    ],
)
def test_a_word_to_avoid_is_found(bad: str) -> None:
    assert list(found_in((1, bad)))


@pytest.mark.parametrize(
    "good",
    [
        "keep the table up to date",
        "the watermark of deduplication is the newest event time, less the time declared",
        "a person asks to be forgotten",
        "the audit step of write-audit-publish",
        "names are code: `kept_up`, `anew`, `headwaters audit`",
        "a run stages the rows that changed",
        "[a record](decisions/0008-bronze-remembers-keys.md)",
        "recommended, amended, on-call, renewed",
    ],
)
def test_ordinary_english_is_not_found(good: str) -> None:
    assert list(found_in((1, good))) == []


@pytest.mark.parametrize(
    ("suffix", "text", "where"),
    [
        (".md", "# Page\n\n```sql\nanew\n```\nbuilt\nanew `anew`\n", [7]),
        (".yml", "models:\n  - name: anew_1\n    description: >\n      built\n      anew\n", [5]),
        (".yml", "# built\n# anew\nanew_1: true\n", [2]),
        (".sql", "select anew -- built\n-- anew\nfrom x\n", [2]),
        (".sql", "{#- anew -#}\n{% set anew = 1 %}{{ print('built anew') }}\n", [1, 2]),
        (
            ".py",
            '"""Built anew."""\nanew = 1  # kept\n# up\nraise E(f"{anew} an" "ew")\n',
            [1, 2, 4],
        ),
    ],
)
def test_prose_is_told_from_code(suffix: str, text: str, where: list[int]) -> None:
    found = [said for part in PROSE[suffix](text) for said in found_in(part)]
    assert sorted(int(said.split(":")[0]) for said in found) == where
