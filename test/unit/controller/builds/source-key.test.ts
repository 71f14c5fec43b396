import { describe, expect, test } from "vitest";
import {
  getImageReference,
  isCommit,
  isSameRef,
  pinKey,
  sourceName,
} from "../../../../src/controller/builds/source-key.ts";
import type { GitSource } from "../../../../src/resources/app-source-spec.ts";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import {
  DEPLOYED_AT_ANNOTATION,
  RETRIED_AT_ANNOTATION,
} from "../../../../src/resources/resource.ts";
import { appResource } from "../../../support/app-resource.ts";

const git = { url: "https://git.example.org/team/app", ref: "main" };

describe("the key that identifies a pin of a source to a commit", () => {
  test.each<[string, Partial<GitSource>]>([
    ["url", { url: "https://git.example.org/team/other" }],
    ["ref", { ref: "next" }],
    ["path", { path: "web" }],
    ["dockerfile", { dockerfile: "Dockerfile.prod" }],
  ])("depends on %s", (_, change) => {
    expect(keyOf({ ...git, ...change })).not.toBe(keyOf(git));
  });

  test("does not depend on the credential, the polling interval or the retry annotation", () => {
    expect(keyOf({ ...git, credential: "key", interval: "1m" })).toBe(keyOf(git));
    expect(keyOf(git, { [RETRIED_AT_ANNOTATION]: "2030-01-01T00:00:00Z" })).toBe(keyOf(git));
  });

  test("changes with each deploy that the user requests", () => {
    const first = keyOf(git, { [DEPLOYED_AT_ANNOTATION]: "2030-01-01T00:00:00Z" });
    expect(first).not.toBe(keyOf(git));
    expect(first).not.toBe(keyOf(git, { [DEPLOYED_AT_ANNOTATION]: "2030-01-01T00:00:01Z" }));
  });
});

describe("the image name of a revision", () => {
  const spec: AppSpec = { source: { git } };

  test("is the same for the same inputs, and is a valid image reference", () => {
    const image = getImageReference("0123abcd", "web", spec, "c".repeat(40));
    expect(image).toMatch(/^berth-0123abcd\/web:[0-9a-f]{16}$/);
    expect(getImageReference("0123abcd", "web", { ...spec, replicas: 3 }, "c".repeat(40))).toBe(
      image,
    );
    const elsewhere: AppSpec = { source: { git: { ...git, url: "git@git.example.org:team/app" } } };
    expect(getImageReference("0123abcd", "web", elsewhere, "c".repeat(40))).toBe(image);
  });

  test.each<[string, AppSpec, string]>([
    ["revision", spec, "d".repeat(40)],
    ["path", { source: { git: { ...git, path: "web" } } }, "c".repeat(40)],
    ["dockerfile", { source: { git: { ...git, dockerfile: "a" } } }, "c".repeat(40)],
    ["argument", { ...spec, build: { args: { MODE: "fast" } } }, "c".repeat(40)],
  ])("depends on %s", (_, other, revision) => {
    const image = getImageReference("0123abcd", "web", spec, "c".repeat(40));
    expect(getImageReference("0123abcd", "web", other, revision)).not.toBe(image);
  });
});

test("build records name a source without user and password", () => {
  expect(sourceName({ git: { url: "https://me:s3cret@git.example.org/a/b" } })).toBe(
    "https://git.example.org/a/b",
  );
  expect(sourceName({ archive: "0".repeat(64) })).toBe("archive");
  expect(sourceName({ local: "/home/somebody/app" })).toBe("folder");
});

test("a branch name equals the same name with refs/heads/, and only a full hash counts as a commit", () => {
  expect(isSameRef("refs/heads/main", "main")).toBe(true);
  expect(isSameRef("refs/tags/v1", "v1")).toBe(true);
  expect(isSameRef("refs/heads/feature/main", "main")).toBe(false);
  expect(isCommit("a".repeat(40))).toBe(true);
  expect(isCommit("main")).toBe(false);
  expect(isCommit(undefined)).toBe(false);
});

function keyOf(source: GitSource, annotations: Record<string, string> = {}): string {
  return pinKey(appResource("web", { source: { git: source } }, { annotations }));
}
