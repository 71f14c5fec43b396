import type { SpecIssue } from "../base/errors.ts";
import { createIssueList, type IssueList, isInsidePath } from "./field-checks.ts";
import { isLoopback, type ModelSource, parseModelSource } from "./model-source.ts";
import type { ModelSpec } from "./model-spec.ts";

/** Checks what the schema of a Model cannot express: which fields are allowed with which source. */
export function checkModelSpec(spec: ModelSpec): SpecIssue[] {
  const { issues, add } = createIssueList();
  const parsed = parseModelSource(spec.source);
  if ("problem" in parsed) add(["spec", "source"], parsed.problem);
  else checkSourceFields(spec, parsed.source, add);
  checkFileChoice(spec, add);
  if (spec.gpu === true) {
    add(
      ["spec", "gpu"],
      "is not supported: this version computes on the CPU only; write auto, or omit it",
    );
  }
  return issues;
}

function checkSourceFields(spec: ModelSpec, source: ModelSource, add: IssueList["add"]): void {
  if (source.type === "repository") return;
  const what = source.type === "url" ? "a URL" : "a file of this machine";
  for (const key of ["file", "quantization", "revision"] as const) {
    if (spec[key] === undefined) continue;
    add(["spec", key], `selects a file of a repository, but source is ${what}: omit it`);
  }
  if (source.type === "local" && spec.credential !== undefined) {
    add(["spec", "credential"], "is for downloads, but source is a file of this machine");
  }
  if (source.type === "url" && source.url.protocol === "http:" && !isLoopback(source.url)) {
    if (spec.credential !== undefined) {
      add(["spec", "source"], "would send the token of credential unencrypted: use https");
    } else if (spec.sha256 === undefined) {
      add(["spec", "source"], "could be changed in transit: use https, or set sha256");
    }
  }
}

function checkFileChoice(spec: ModelSpec, add: IssueList["add"]): void {
  const { file, quantization, revision } = spec;
  if (file !== undefined && quantization !== undefined) {
    add(["spec", "quantization"], "set file or quantization, not both");
  }
  if (file !== undefined && !isInsidePath(file)) {
    add(["spec", "file"], "has to be a path inside the repository, without ..");
  } else if (file !== undefined && !/\.gguf$/i.test(file)) {
    add(["spec", "file"], "has to be a GGUF file: its name ends in .gguf");
  }
  if (quantization !== undefined && !/^\w([\w.-]*\w)?$/.test(quantization)) {
    add(["spec", "quantization"], "has to be a name such as Q4_K_M, UD-Q4_K_XL or BF16");
  }
  if (revision !== undefined && !isRevision(revision)) {
    add(["spec", "revision"], "is not the name of a branch or tag, nor a commit");
  }
}

/**
 * Returns true if git's rules allow the text as the name of a revision. Only the hub can tell if the revision exists.
 */
function isRevision(text: string): boolean {
  return (
    /^[^-/\s~^:?*[\\][^\s~^:?*[\\]*$/.test(text) && !text.includes("..") && !/\p{Cc}/u.test(text)
  );
}
