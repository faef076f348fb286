"""What pyproject.toml cannot say: the C library is built and put inside the package, openipu.pth beside it."""

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    from wheel.bdist_wheel import bdist_wheel

TOP = Path(__file__).resolve().parent


def version() -> str:
    return subprocess.run([TOP / "scripts/version.sh"], check=True, capture_output=True, text=True).stdout.strip()


def built_library() -> Path:
    """IPU_LIBRARY, or what the project's own script builds; it installs what it needs where it may."""
    if os.environ.get("IPU_LIBRARY"):
        return Path(os.environ["IPU_LIBRARY"])
    build = os.environ.get("BUILD", "build")
    subprocess.run(["scripts/build.sh"], check=True, cwd=TOP, env={**os.environ, "BUILD": build})
    return TOP / build / "src" / "libipu.so"


class BuildWithLibrary(build_py):
    def run(self) -> None:
        super().run()
        shutil.copy2(built_library(), Path(self.build_lib) / "openipu" / "libipu.so")
        shutil.copy2(TOP / "python" / "openipu.pth", self.build_lib)  # beside the packages, where Python reads it when it starts


class WheelOfMachine(bdist_wheel):
    """For any Python 3, but for this kind of machine only."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple:
        return "py3", "none", super().get_tag()[2]


class BinaryDistribution(Distribution):
    def has_ext_modules(self) -> bool:
        return True


setup(version=version(), distclass=BinaryDistribution,
      cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": WheelOfMachine})
