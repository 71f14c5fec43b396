import { describe, expect, it } from "vitest";
import { parseGgufName } from "../../../../../src/controller/models/hub/gguf-name.ts";

describe("the quantization in a file name", () => {
  it.each([
    ["llama-2-7b-chat.Q4_K_M.gguf", "Q4_K_M"],
    ["Llama-3.2-1B-Instruct-Q6_K_L.gguf", "Q6_K_L"],
    ["Meta-Llama-3.1-8B-Instruct-Q4_0_4_4.gguf", "Q4_0_4_4"],
    ["Qwen2.5-VL-7B-Instruct-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"],
    ["UD-IQ1_S/DeepSeek-R1-UD-IQ1_S-00001-of-00004.gguf", "UD-IQ1_S"],
    ["qwen2.5-7b-instruct-q4_k_m-00001-of-00002.gguf", "Q4_K_M"],
    ["qwen2.5-0.5b-instruct-fp16.gguf", "F16"],
    ["Phi-3-mini-4k-instruct-q4.gguf", "Q4"],
    ["gemma-3-4b-it-BF16.gguf", "BF16"],
    ["gpt-oss-20b-mxfp4.gguf", "MXFP4"],
    ["Qwen3-30B-A3B-MXFP4_MOE.gguf", "MXFP4_MOE"],
    ["Model.i1-IQ4_XS.gguf", "IQ4_XS"],
    ["model_Q5_K_S.gguf", "Q5_K_S"],
    ["ggml-model-i2_s.gguf", "I2_S"],
    ["TriLM-3.9B-TQ1_0.gguf", "TQ1_0"],
    ["BF16/model-00001-of-00002.gguf", "BF16"],
    ["Q8_0/model.gguf", "Q8_0"],
    ["Model-f16.Q4_K_M.gguf", "Q4_K_M"],
    ["Model-Q4_K_M-imat.gguf", "Q4_K_M"],
    ["Q4_K_M.gguf", "Q4_K_M"],
    ["QwQ-32B.gguf", null],
    ["2b_it_v2.gguf", null],
    ["model.gguf", null],
  ])("%s has the quantization %s", (name, quantization) => {
    expect(parseGgufName(name)).toMatchObject({ name, quantization });
  });
});

describe("the role of a file in a repository", () => {
  it.each([
    ["gemma-3-4b-it-Q4_K_M.gguf", "model"],
    ["mmproj-model-f16.gguf", "companion"],
    ["llava-v1.6-mmproj-f16.gguf", "companion"],
    ["mmproj/model-BF16.gguf", "companion"],
    ["imatrix_unsloth.gguf", "companion"],
    ["Model-imatrix.gguf", "companion"],
    ["Model-Q4_K_M-imatrix.gguf", "model"],
    ["ggml-lora-support-f16.gguf", "companion"],
    ["adapter-model.gguf", "companion"],
    ["Explorer-Q4_0.gguf", "model"],
    ["eagle3-head-Q8_0.gguf", "companion"],
    ["ggml-vocab-llama-bpe.gguf", "companion"],
    ["Mistral-Small-DRAFT-0.5B.Q8_0.gguf", "draft"],
  ])("%s has the role %s", (name, role) => {
    expect(parseGgufName(name)).toMatchObject({ role });
  });

  it.each(["README.md", "model.safetensors", "model.gguf.part1of2", "x.gguf-split-a", "gguf"])(
    "%s is not a GGUF file",
    (name) => {
      expect(parseGgufName(name)).toBeUndefined();
    },
  );
});

describe("the parts of a split model", () => {
  it("belong to the same group", () => {
    const names = [
      "q/m-00001-of-00003.gguf",
      "q/m-00002-of-00003.gguf",
      "q/m-00001-of-00002.gguf",
      "m-00001-of-00003.gguf",
      "q/m-00001-of-00003.GGUF",
    ];
    const groups = names.map((name) => parseGgufName(name)?.group);
    expect(groups[1]).toBe(groups[0]);
    expect(new Set(groups).size).toBe(4);
  });

  it.each([
    "m-00000-of-00003.gguf",
    "m-00004-of-00003.gguf",
    "m-00000-of-00000.gguf",
    "m-1-of-3.gguf",
  ])("%s is not a part of a split model", (name) => {
    expect(parseGgufName(name)).toMatchObject({ part: null, group: name });
  });
});
