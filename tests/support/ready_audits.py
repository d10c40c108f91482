"""Audits that are answered at once, in processes that are none the less real.

A worker runs ``simverify audit`` in a process of its own, whatever the worker is. A
``sitecustomize`` that such a process finds first answers for it: with the document that lies ready
for the SPEC, or by the end that its file asks for. Workers, which have another command line, never
see it.
"""

import textwrap

import simverify

RIGHT, WRONG = "right.py:verify", "wrong.py:verify"
CRASHES, HANGS, KILLS = "crashes.py:verify", "hangs.py:verify", "kills.py:verify"

_ANSWER = textwrap.dedent(
    """
    import os, sys
    words = sys.orig_argv
    if "audit" in words and "--json" in words:
        import shutil, signal, time
        name = os.path.basename(words[words.index("audit") + 1]).partition(".")[0]
        here = os.path.dirname(__file__)
        with open(os.path.join(here, "asked"), "a") as asked:
            asked.write(name + "\\n")
        if name == "crashes":
            os.abort()
        if name == "hangs":
            time.sleep(600)
        if name == "kills":
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(600)
        shutil.copy(os.path.join(here, name + ".json"), words[words.index("--json") + 1])
        os._exit({"right": 0, "wrong": 1}[name])
    """
)


def lay_out(folder, monkeypatch):
    """Lay answers ready in ``folder``, and have all processes that start from now on find them.

    Returns the file that gathers which SPECs were asked for, in lines.
    """
    folder.mkdir()

    def lossy(target_probs, draft_probs, draft_tokens, rng):
        return [int(rng.choice(len(target_probs[0]), p=draft_probs[0]))]

    simverify.audit("token", gamma=1, vocab=2).save(folder / "right.json")
    simverify.audit(lossy, gamma=1, vocab=2).save(folder / "wrong.json")
    for name in (RIGHT, WRONG, CRASHES, HANGS, KILLS):
        (folder / name.partition(":")[0]).write_text(f"# {name}\n")
    (folder / "sitecustomize.py").write_text(_ANSWER)
    (folder / "asked").touch()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder / "asked"
