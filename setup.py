"""Find the packages: three folders beside ``simverify`` are packages under it."""

from setuptools import find_packages, setup

BESIDE = ("reports", "simulators", "stats")

setup(
    packages=[
        *find_packages(include=["simverify", "simverify.*"]),
        *(
            f"simverify.{name}"
            for folder in BESIDE
            for name in find_packages(include=[folder, f"{folder}.*"])
        ),
    ],
)
