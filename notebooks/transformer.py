"""The layers under the name that the chapter imports them by.

    from transformer import TransformerEncoder

Takes the installed package, or in a checkout without one the folder beside this.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

if find_spec("keras_transformer") is None:
    checkout = Path(__file__).resolve().parents[1]
    if not (checkout / "keras_transformer" / "__init__.py").is_file():
        raise ModuleNotFoundError(
            "The package keras_transformer is not installed, and not in the folder "
            f"above {Path(__file__).name}. In the folder of its repository run: "
            "pip install -e '.[tensorflow,notebooks]' (or jax, torch).",
            name="keras_transformer",
        )
    sys.path.append(str(checkout))

import keras_transformer  # noqa: E402
from keras_transformer import *  # noqa: E402, F403

__all__ = keras_transformer.__all__
