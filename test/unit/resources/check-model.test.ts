import { describe, expect, it } from "vitest";
import { checkModelSpec } from "../../../src/resources/check-model.ts";
import { findHostProblem, parseModelSource } from "../../../src/resources/model-source.ts";
import type { ModelSpec } from "../../../src/resources/model-spec.ts";

describe("the source of a Model", () => {
  it.each([
    ["org/name", { type: "repository", id: "org/name" }],
    ["Qwen/Qwen2.5-0.5B-Instruct-GGUF", { type: "repository" }],
    ["a_b.c-d/e", { type: "repository" }],
    [`${"o".repeat(96)}/${"n".repeat(96)}`, { type: "repository" }],
    ["/models/a b.gguf", { type: "local", path: "/models/a b.gguf" }],
    ["file:///models/a%20b.gguf", { type: "local", path: "/models/a b.gguf" }],
    ["file://localhost/m.gguf", { type: "local", path: "/m.gguf" }],
    ["HTTPS://example.org/m.gguf?x=1#y", { type: "url" }],
  ])("such as %s is accepted", (text, source) => {
    expect(parseModelSource(text)).toMatchObject({ source });
  });

  it("that is a URL loses its fragment, which is never sent to a server", () => {
    const parsed = parseModelSource("https://example.org/m.gguf?x=1#y");
    expect("source" in parsed && parsed.source.type === "url" && parsed.source.url.href).toBe(
      "https://example.org/m.gguf?x=1",
    );
  });

  it.each([
    ["name", "is not a repository id: write org/name, as the hub's page shows it"],
    ["org/name:Q4_K_M", 'contains ":Q4_K_M": write "org/name", and quantization: Q4_K_M'],
    ["org/name/m.gguf", "and what comes after it as file"],
    ["hub.example/org/name", "without the hub's address"],
    ["org/../name", "is not a repository id"],
    ["org/na..me", "contains .., which is not allowed in repository ids"],
    ["../name", "is a relative path"],
    ["./m.gguf", "is a relative path"],
    ["~/m.gguf", "is a relative path"],
    ["-org/name", "begins and ends with a letter or digit"],
    ["org/.name", "begins and ends with a letter or digit"],
    ["org/nam e", "each part is letters, digits, . _ and -"],
    ["órg/name", "each part is letters, digits, . _ and -"],
    ["org\\name", "is not a repository id"],
    ["org/", "is not a repository id"],
    [`org/${"n".repeat(97)}`, "has a part longer than 96 characters"],
    [" org/name", "begins or ends with white space"],
    ["org/na\nme", "contains control characters"],
    ["/m\0.gguf", "contains control characters"],
    ["ftp://example.org/m.gguf", "has a scheme that is not https, http or file"],
    ["https:/example.org/m.gguf", "is not a URL"],
    ["https://", "is not a URL"],
    ["https://user:secret@example.org/m.gguf", "contains a user or a password"],
    ["file://server/m.gguf", "is not a URL of a file of this machine"],
    ["file:m.gguf", "is not a URL of a file of this machine"],
    ["file:///a%2Fb.gguf", "is not a URL of a file of this machine"],
  ])("%j is refused", (text, problem) => {
    const parsed = parseModelSource(text);
    expect(parsed).toEqual({ problem: expect.stringContaining(problem) });
    expect(JSON.stringify(parsed)).not.toContain("secret");
  });
});

describe("a Model", () => {
  const repository = "org/name";
  const url = "https://example.org/m.gguf";
  const sha256 = "a".repeat(64);

  it.each<ModelSpec>([
    { source: repository },
    { source: repository, quantization: "UD-Q4_K_XL", revision: "refs/pr/1", gpu: "auto" },
    { source: repository, file: "Q8_0/m-00001-of-00002.gguf", revision: "v1.0", credential: "hub" },
    { source: url, credential: "token", gpu: false, sha256 },
    { source: "http://127.0.0.1:8000/m.gguf", credential: "token" },
    { source: "http://[::1]/m.gguf" },
    { source: "http://nas.lan/m.gguf", sha256 },
    { source: "/models/m.gguf", sha256 },
  ])("with the spec %j is accepted", (spec) => {
    expect(checkModelSpec(spec)).toEqual([]);
  });

  it.each<[ModelSpec, string, string]>([
    [{ source: "x" }, "/spec/source", "is not a repository id"],
    [{ source: url, file: "m.gguf" }, "/spec/file", "source is a URL: omit it"],
    [{ source: url, quantization: "Q8_0" }, "/spec/quantization", "source is a URL"],
    [{ source: url, revision: "main" }, "/spec/revision", "source is a URL"],
    [{ source: "/m.gguf", revision: "main" }, "/spec/revision", "source is a file of this machine"],
    [{ source: "/m.gguf", credential: "x" }, "/spec/credential", "is for downloads"],
    [{ source: "http://nas.lan/m.gguf" }, "/spec/source", "could be changed in transit"],
    [{ source: "http://127.0.0.1.evil.example/m.gguf" }, "/spec/source", "could be changed"],
    [{ source: "https://169.254.169.254/m.gguf" }, "/spec/source", "metadata service"],
    [{ source: "https://[fd00:ec2::254]/m.gguf" }, "/spec/source", "metadata service"],
    [
      { source: "http://nas.lan/m.gguf", sha256, credential: "x" },
      "/spec/source",
      "would send the token of credential unencrypted",
    ],
    [
      { source: repository, file: "m.gguf", quantization: "Q8_0" },
      "/spec/quantization",
      "set file or quantization, not both",
    ],
    [{ source: repository, file: "../m.gguf" }, "/spec/file", "without .."],
    [{ source: repository, file: "model.safetensors" }, "/spec/file", "its name ends in .gguf"],
    [{ source: repository, quantization: "Q4 K M" }, "/spec/quantization", "such as Q4_K_M"],
    [{ source: repository, revision: "a..b" }, "/spec/revision", "is not the name of a branch"],
    [{ source: repository, revision: "-x" }, "/spec/revision", "is not the name of a branch"],
    [{ source: repository, revision: "a b" }, "/spec/revision", "is not the name of a branch"],
    [{ source: repository, gpu: true }, "/spec/gpu", "computes on the CPU only"],
  ])("with the spec %j is refused", (spec, path, message) => {
    expect(checkModelSpec(spec)).toEqual([{ path, message: expect.stringContaining(message) }]);
  });
});

describe("the host of a request to a source", () => {
  const file = "https://files.example.org/m.gguf";
  const here = expect.stringContaining("leads to this machine");
  const metadata = expect.stringContaining("metadata service");

  it.each([
    [file, "http://127.0.0.1:5432/", here],
    ["http://192.0.2.7/m.gguf", "http://localhost./x", here],
    [file, "http://localhost../x", here],
    [file, "http://[::ffff:127.0.0.1]:22/", here],
    [file, "http://[::127.0.0.1]:22/", here],
    [file, "http://[64:ff9b::7f00:1]/", here],
    [file, "http://[2002:7f00:1::]/", here],
    [file, "http://0.0.0.0/", here],
    [file, "http://0.0.0.1/", here],
    [file, "http://2130706433/", here],
    [file, "http://169.254.169.254/latest", metadata],
    ["http://127.0.0.1:8000/m.gguf", "http://[::169.254.169.254]/latest", metadata],
    [file, "https://cdn.example.org/m.gguf", undefined],
    [file, "http://10.0.0.5/m.gguf", undefined],
    ["http://127.0.0.1:8000/m.gguf", "http://127.0.0.1:8001/m.gguf", undefined],
  ])("is compared with the source's own host: a request from %s to %s", (from, to, expected) => {
    expect(findHostProblem(new URL(from), new URL(to))).toEqual(expected);
  });
});
