"""A sweep that kills its own process as it is about to rename a file.

Its words: a part of the name of the file, how many such files, the spec, the folder, the executor.
"""

import textwrap

KILLED = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    import msgspec
    from simverify.sweeping import pace
    from simverify.sweeping.run import run_sweep
    from simverify.sweeping.spec import Spec
    pace.LOAD_SECONDS, pace.A_BYTE, pace.FIRST_BLOCKS = 1e-9, 0.0, 1
    name, number, spec, out, executor = sys.argv[1:]
    rename, met = Path.rename, []
    def dies(path, target):
        met.extend([True] * (name in str(target)))
        if len(met) == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        return rename(path, target)
    Path.rename = dies
    if __name__ == "__main__":
        run_sweep(msgspec.json.decode(spec, type=Spec), Path(out), executor=executor, workers=2)
    """
)
