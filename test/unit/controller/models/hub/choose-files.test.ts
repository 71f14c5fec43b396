import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type ChosenFiles,
  chooseFiles,
} from "../../../../../src/controller/models/hub/choose-files.ts";
import { catchBerthError } from "../../../../support/catch-berth-error.ts";

// Each constant lists the file names of a typical repository. Most constants have the name of a publisher on the hub.
const theBloke = [
  ".gitattributes",
  "README.md",
  "config.json",
  ...["Q2_K", "Q3_K_L", "Q3_K_M", "Q3_K_S", "Q4_0", "Q4_K_M", "Q4_K_S", "Q5_0", "Q6_K", "Q8_0"].map(
    (one) => `llama-2-7b-chat.${one}.gguf`,
  ),
];
const bartowski = [
  "Big-70B-Instruct.imatrix",
  "Big-70B-Instruct-imatrix.gguf",
  "Big-70B-Instruct-IQ1_M.gguf",
  "Big-70B-Instruct-IQ4_XS.gguf",
  "Big-70B-Instruct-Q4_K_L.gguf",
  "Big-70B-Instruct-Q4_K_M.gguf",
  "Big-70B-Instruct-Q8_0/Big-70B-Instruct-Q8_0-00001-of-00002.gguf",
  "Big-70B-Instruct-Q8_0/Big-70B-Instruct-Q8_0-00002-of-00002.gguf",
  "Big-70B-Instruct-f16/Big-70B-Instruct-f16-00001-of-00003.gguf",
  "Big-70B-Instruct-f16/Big-70B-Instruct-f16-00003-of-00003.gguf",
];
const unsloth = [
  "BF16/Qwen3-235B-BF16-00001-of-00002.gguf",
  "BF16/Qwen3-235B-BF16-00002-of-00002.gguf",
  "Q8_0/Qwen3-235B-Q8_0-00002-of-00002.gguf",
  "Q8_0/Qwen3-235B-Q8_0-00001-of-00002.gguf",
  "UD-Q4_K_XL/Qwen3-235B-UD-Q4_K_XL-00001-of-00001.gguf",
  "imatrix_unsloth.gguf",
  "mmproj-BF16.gguf",
  "mmproj-F16.gguf",
];
const qwen = [
  "LICENSE",
  "qwen2.5-7b-instruct-fp16-00001-of-00002.gguf",
  "qwen2.5-7b-instruct-fp16-00002-of-00002.gguf",
  "qwen2.5-7b-instruct-q2_k.gguf",
  "qwen2.5-7b-instruct-q8_0.gguf",
  "qwen2.5-7b-instruct-q4_0-00001-of-00002.gguf",
  "qwen2.5-7b-instruct-q4_0-00002-of-00002.gguf",
];
const ggmlOrg = ["gpt-oss-20b-mxfp4.gguf"];
const vision = ["gemma-3-4b-it-Q8_0.gguf", "mmproj-model-f16.gguf", "gemma-3-4b-it-f16.gguf"];

function choose(
  listed: readonly string[],
  wanted: { file?: string; quantization?: string } = {},
): ChosenFiles {
  return chooseFiles("org/name", listed, {
    file: wanted.file,
    quantization: wanted.quantization,
  });
}

describe("chooseFiles with neither a file nor a quantization in the spec", () => {
  it.each<[string, readonly string[], readonly string[], string | null]>([
    ["Q4_K_M", theBloke, ["llama-2-7b-chat.Q4_K_M.gguf"], "Q4_K_M"],
    ["Q4_K_M before Q4_K_L", bartowski, ["Big-70B-Instruct-Q4_K_M.gguf"], "Q4_K_M"],
    [
      "a dynamic quantization of four bits before larger ones",
      unsloth,
      ["UD-Q4_K_XL/Qwen3-235B-UD-Q4_K_XL-00001-of-00001.gguf"],
      "UD-Q4_K_XL",
    ],
    [
      "Q4_0 before Q8_0, in one file or split",
      qwen,
      [
        "qwen2.5-7b-instruct-q4_0-00001-of-00002.gguf",
        "qwen2.5-7b-instruct-q4_0-00002-of-00002.gguf",
      ],
      "Q4_0",
    ],
    ["the only one", ggmlOrg, ["gpt-oss-20b-mxfp4.gguf"], "MXFP4"],
    ["Q8_0 before F16, and no projector", vision, ["gemma-3-4b-it-Q8_0.gguf"], "Q8_0"],
    [
      "three bits before unquantized weights",
      ["m-f16.gguf", "m-Q3_K_M.gguf"],
      ["m-Q3_K_M.gguf"],
      "Q3_K_M",
    ],
    ["unquantized weights before two bits", ["m-f16.gguf", "m-Q2_K.gguf"], ["m-f16.gguf"], "F16"],
    [
      "a known quantization before an unknown one",
      ["a.gguf", "b-Q2_K.gguf"],
      ["b-Q2_K.gguf"],
      "Q2_K",
    ],
    ["one without a quantization", ["README.md", "2b_it_v2.gguf"], ["2b_it_v2.gguf"], null],
    [
      "the model before its draft model",
      ["m-draft-Q4_K_M.gguf", "m-Q8_0.gguf"],
      ["m-Q8_0.gguf"],
      "Q8_0",
    ],
    ["a draft model if there is no other", ["m-DRAFT.Q8_0.gguf"], ["m-DRAFT.Q8_0.gguf"], "Q8_0"],
    [
      "a file outside folders before one inside",
      ["old/m-Q4_K_M.gguf", "m-Q4_K_M.gguf"],
      ["m-Q4_K_M.gguf"],
      "Q4_K_M",
    ],
    [
      "a single file before a split one",
      ["m-Q4_K_M-00001-of-00002.gguf", "m-Q4_K_M-00002-of-00002.gguf", "m-Q4_K_M.gguf"],
      ["m-Q4_K_M.gguf"],
      "Q4_K_M",
    ],
  ])("chooses %s", (_, listed, names, quantization) => {
    expect(choose(listed)).toEqual({ names, quantization });
    expect(choose(listed.toReversed())).toEqual({ names, quantization });
  });

  it("throws if several models have the preferred quantization", () => {
    const error = catchBerthError(() =>
      choose(["2b-Q4_K_M.gguf", "7b-Q4_K_M.gguf", "7b-Q8_0.gguf"]),
    );
    expect(error).toMatchObject({
      code: "invalid_spec",
      message:
        "org/name has several models, and the spec does not choose one: 2b-Q4_K_M.gguf, 7b-Q4_K_M.gguf",
      hint: "set spec.file to one of these files, with its folder",
    });
  });

  it("throws if there are several models, and no file name contains a quantization", () => {
    expect(catchBerthError(() => choose(["a.gguf", "b.gguf"])).code).toBe("invalid_spec");
  });

  it("throws if there is no GGUF file", () => {
    expect(catchBerthError(() => choose(["model.safetensors", "README.md"]))).toMatchObject({
      code: "hub_not_found",
      message: "org/name has no GGUF file",
    });
  });

  it("throws if all GGUF files are projectors or adapters", () => {
    expect(catchBerthError(() => choose(["mmproj-f16.gguf", "lora-q8_0.gguf"]))).toMatchObject({
      code: "hub_not_found",
      hint: "the repository has mmproj-f16.gguf, lora-q8_0.gguf; set file to use one of them",
    });
  });
});

describe("chooseFiles with a quantization in the spec", () => {
  it.each<[string, readonly string[], string]>([
    ["q4_k_s", theBloke, "llama-2-7b-chat.Q4_K_S.gguf"],
    ["FP16", qwen, "qwen2.5-7b-instruct-fp16-00001-of-00002.gguf"],
    ["f16", qwen, "qwen2.5-7b-instruct-fp16-00001-of-00002.gguf"],
    ["Q8_0", bartowski, "Big-70B-Instruct-Q8_0/Big-70B-Instruct-Q8_0-00001-of-00002.gguf"],
    ["IQ4_XS", bartowski, "Big-70B-Instruct-IQ4_XS.gguf"],
    ["ud-q4_k_xl", unsloth, "UD-Q4_K_XL/Qwen3-235B-UD-Q4_K_XL-00001-of-00001.gguf"],
    ["Q4_K_XL", unsloth, "UD-Q4_K_XL/Qwen3-235B-UD-Q4_K_XL-00001-of-00001.gguf"],
    ["BF16", unsloth, "BF16/Qwen3-235B-BF16-00001-of-00002.gguf"],
    ["mxfp4", ggmlOrg, "gpt-oss-20b-mxfp4.gguf"],
  ])("chooses a file for %s", (quantization, listed, first) => {
    expect(choose(listed, { quantization }).names[0]).toBe(first);
  });

  it("prefers the plain variant to a dynamic one", () => {
    const listed = ["m-UD-Q4_K_XL.gguf", "m-Q4_K_XL.gguf"];
    expect(choose(listed, { quantization: "Q4_K_XL" }).names).toEqual(["m-Q4_K_XL.gguf"]);
  });

  it("returns the parts of a split model in order", () => {
    expect(choose(unsloth, { quantization: "Q8_0" }).names).toEqual([
      "Q8_0/Qwen3-235B-Q8_0-00001-of-00002.gguf",
      "Q8_0/Qwen3-235B-Q8_0-00002-of-00002.gguf",
    ]);
  });

  it("names the missing part of a split model", () => {
    expect(catchBerthError(() => choose(bartowski, { quantization: "f16" }))).toMatchObject({
      code: "hub_not_found",
      message:
        "org/name lists Big-70B-Instruct-f16/Big-70B-Instruct-f16 as 3 parts, but part 00002 is missing",
    });
  });

  it("lists the available quantizations, the best first, if the requested one is missing", () => {
    expect(catchBerthError(() => choose(vision, { quantization: "Q4_K_M" }))).toMatchObject({
      code: "hub_not_found",
      message: "org/name has no file with quantization Q4_K_M",
      hint: "the repository has Q8_0, F16",
    });
  });

  it("suggests a correction of a typing error", () => {
    expect(catchBerthError(() => choose(theBloke, { quantization: "Q4KM" })).message).toBe(
      'org/name has no file with quantization Q4KM; did you mean "Q4_K_M"?',
    );
  });

  it("lists the files if their names contain no quantization", () => {
    expect(catchBerthError(() => choose(["a.gguf"], { quantization: "Q8_0" })).hint).toBe(
      "the file names of the repository contain no quantization: set file to one of a.gguf",
    );
  });

  it("never chooses a projector", () => {
    expect(choose(vision, { quantization: "F16" }).names).toEqual(["gemma-3-4b-it-f16.gguf"]);
  });

  it("throws if several models have the requested quantization", () => {
    const error = catchBerthError(() =>
      choose(["2b-Q8_0.gguf", "7b-Q8_0.gguf"], { quantization: "q8_0" }),
    );
    expect(error).toMatchObject({
      code: "invalid_spec",
      message: "org/name has several files with quantization Q8_0: 2b-Q8_0.gguf, 7b-Q8_0.gguf",
    });
  });
});

describe("chooseFiles with a file in the spec", () => {
  it.each<[string, readonly string[], number]>([
    ["llama-2-7b-chat.Q2_K.gguf", theBloke, 1],
    ["Q8_0/Qwen3-235B-Q8_0-00001-of-00002.gguf", unsloth, 2],
    ["Q8_0/Qwen3-235B-Q8_0-00002-of-00002.gguf", unsloth, 2],
    ["Qwen3-235B-BF16-00001-of-00002.gguf", unsloth, 2],
    ["mmproj-model-f16.gguf", vision, 1],
  ])("chooses the model of %s", (file, listed, count) => {
    const { names } = choose(listed, { file });
    expect(names).toHaveLength(count);
    expect(names.some((name) => name === file || name.endsWith(`/${file}`))).toBe(true);
    expect(names).toEqual(names.toSorted());
  });

  it("lists the files, and suggests the one with the most similar name", () => {
    expect(catchBerthError(() => choose(vision, { file: "gemma-3-4b-it-Q8.gguf" }))).toMatchObject({
      code: "hub_not_found",
      message:
        'org/name has no file gemma-3-4b-it-Q8.gguf; did you mean "gemma-3-4b-it-Q8_0.gguf"?',
      hint: "the repository has gemma-3-4b-it-Q8_0.gguf, mmproj-model-f16.gguf, gemma-3-4b-it-f16.gguf",
    });
  });

  it("requires the folder if several folders have a file of that name", () => {
    expect(catchBerthError(() => choose(["a/m.gguf", "b/m.gguf"], { file: "m.gguf" })).code).toBe(
      "invalid_spec",
    );
  });

  it("keeps error messages short", () => {
    const many = Array.from({ length: 100 }, (_, index) => `model-${index}.gguf`);
    expect(catchBerthError(() => choose(many, { file: "x.gguf" })).hint).toMatch(/ and 70 more$/);
  });
});

describe("chooseFiles with an unusual list of files", () => {
  it("chooses from a hundred thousand files", () => {
    const many = Array.from({ length: 100_000 }, (_, index) => `m-${index}-Q4_K_M.gguf`);
    expect(choose(many, { file: "m-99999-Q4_K_M.gguf" }).names).toHaveLength(1);
    expect(catchBerthError(() => choose(many)).message).toContain("and 99970 more");
  });

  it("rejects a model with too many parts", () => {
    const parts = Array.from(
      { length: 99_999 },
      (_, index) => `m-${String(index + 1).padStart(5, "0")}-of-99999.gguf`,
    );
    expect(catchBerthError(() => choose(parts))).toMatchObject({
      code: "hub_not_found",
      message: "m-00001-of-99999.gguf claims to be one of 99999 parts",
    });
  });

  it("does not backtrack excessively on malicious names", {
    timeout: 10_000,
  }, () => {
    const part = `${"Q4_".repeat(80)}!`;
    const names = Array.from(
      { length: 20_000 },
      (_, index) => `${part}/${part}/${part}/${index}-Q4_K_M.gguf`,
    );
    expect(choose(names, { file: names[7] ?? "" }).quantization).toBe("Q4_K_M");
  });

  const quantization = fc.constantFrom("Q4_K_M", "Q8_0", "UD-Q4_K_XL", "f16", "IQ4_XS", "zzz");
  const separator = fc.constantFrom("-", ".", "_");
  const stem = fc
    .tuple(
      fc.constantFrom("", "a/", "Q8_0/"),
      fc.constantFrom("m", "mmproj", "n-draft"),
      separator,
      quantization,
    )
    .map(([folder, base, dot, kind]) => `${folder}${base}${dot}${kind}`);
  const whole = stem.map((one) => [`${one}.gguf`]);
  const split = fc
    .tuple(stem, fc.integer({ min: 1, max: 4 }))
    .map(([one, count]) =>
      Array.from({ length: count }, (_, index) => `${one}-0000${index + 1}-of-0000${count}.gguf`),
    );
  const listing = fc
    .array(
      fc.oneof(
        whole,
        split,
        fc.string().map((text) => [text]),
      ),
      { maxLength: 8 },
    )
    .chain((groups) => {
      const names = [...new Set(groups.flat())];
      return fc.shuffledSubarray(names, { minLength: 0 });
    });

  it("chooses one complete model or throws, whatever the order of the files", () => {
    fc.assert(
      fc.property(listing, fc.option(quantization, { nil: undefined }), (listed, wanted) => {
        const outcome = (names: readonly string[]): unknown => {
          try {
            return choose(names, wanted === undefined ? {} : { quantization: wanted });
          } catch (error) {
            expect(error).toMatchObject({
              code: expect.stringMatching(/^(hub_not_found|invalid_spec)$/),
              hint: expect.any(String),
            });
            return "error";
          }
        };
        const first = outcome(listed);
        expect(outcome(listed.toReversed())).toEqual(first);
        if (first === "error") return;
        const { names } = choose(listed, wanted === undefined ? {} : { quantization: wanted });
        expect(listed).toEqual(expect.arrayContaining([...names]));
        const count = Number(/-of-(\d{5})\.gguf$/.exec(names[0] ?? "")?.[1] ?? 1);
        expect(names).toHaveLength(count);
        expect(names).toEqual(names.toSorted());
        expect(names.join()).not.toContain("mmproj");
        // A request for any part of a split model chooses the whole model.
        for (const file of names) expect(choose(listed, { file }).names).toEqual(names);
      }),
    );
  });
});
