import { describe, expect, it } from "vitest";
import { toEngineBuildError } from "../../../../src/controller/runtime/docker-build-failure.ts";

const step = (text: string, lastLines: readonly string[] = []) => ({
  number: 2,
  total: 3,
  text,
  lastLines,
});

/** The messages are from real engines, versions 20.10 to 28. */
describe("the error of a failed build", () => {
  it.each([
    [
      "The command '/bin/sh -c npm ci' returned a non-zero code: 1",
      step("RUN npm ci", ["npm ERR! a", "npm ERR! b"]),
      "build_failed",
      "step 2 of 3 (RUN npm ci) failed with exit code 1; last lines: npm ERR! a | npm ERR! b",
    ],
    [
      'failed to solve: process "/bin/sh -c npm ci" did not complete successfully: exit code: 127',
      step("RUN npm ci"),
      "build_failed",
      "step 2 of 3 (RUN npm ci) failed with exit code 127",
    ],
    // The name of a command must not be mistaken for a message of the engine.
    [
      "The command '/bin/sh -c echo no space left on device; echo unauthorized' returned a non-zero code: 1",
      step("RUN echo no space left on device; echo unauthorized"),
      "build_failed",
      "step 2 of 3 (RUN echo no space left on device; echo unauthorized) failed with exit code 1",
    ],
    [
      "The command '/bin/sh -c npm ci' returned a non-zero code: 1",
      step("RUN npm ci", ["npm ERR! ENOSPC: no space left on device, write"]),
      "disk_full",
      "cannot build the image: the disk is full in step 2 of 3 (RUN npm ci); last lines: npm ERR! ENOSPC: no space left on device, write",
    ],
    [
      "Error processing tar file(exit status 1): write /large: no space left on device",
      undefined,
      "disk_full",
      "cannot build the image: the disk is full",
    ],
    [
      "failed to solve: dockerfile parse error on line 4: unknown instruction: BREW (did you mean RUN?)",
      undefined,
      "build_failed",
      "the Dockerfile cannot be read: line 4: unknown instruction: BREW (did you mean RUN?)",
    ],
    [
      'failed to solve: failed to compute cache key: failed to calculate checksum of ref 9x::y: "/app.js": not found',
      step("COPY app.js /"),
      "build_failed",
      "step 2 of 3 (COPY app.js /) failed: the source has no app.js",
    ],
    [
      "failed to solve: failed to read dockerfile: open Other: no such file or directory",
      undefined,
      "build_failed",
      "the source has no file Other to build from",
    ],
    [
      "pull access denied for me/private, repository does not exist or may require 'docker login': denied: requested access to the resource is denied",
      step("FROM --platform=linux/amd64 me/private:1 AS base"),
      "image_not_found",
      "cannot pull the image me/private:1: there is no such image, or it is private",
    ],
    [
      'failed to do request: Head "https://registry.example.org/v2/a/manifests/1": dial tcp: i/o timeout',
      step("FROM registry.example.org/a:1"),
      "registry_unreachable",
      "cannot pull the image registry.example.org/a:1: the engine cannot reach the registry registry.example.org",
    ],
    [
      "toomanyrequests: You have reached your pull rate limit.",
      step("FROM node:20"),
      "engine_error",
      "cannot pull the image node:20: the registry limits the number of pulls",
    ],
    [
      "buildkit not supported by daemon",
      undefined,
      "build_failed",
      "this engine has no BuildKit: buildkit not supported by daemon",
    ],
    [
      'failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "/nope": stat /nope: no such file or directory: unknown',
      step('RUN ["/nope"]'),
      "build_failed",
      'step 2 of 3 (RUN ["/nope"]) failed: exec: "/nope": stat /nope: no such file or directory',
    ],
    [
      "COPY failed: no source files were specified",
      step("COPY *.js /"),
      "build_failed",
      "step 2 of 3 (COPY *.js /) failed: COPY failed: no source files were specified",
    ],
    // Internal failures of the engine: a retry with the same source can succeed.
    [
      "layer does not exist",
      step("COPY a /"),
      "engine_error",
      "cannot build the image: step 2 of 3 (COPY a /): layer does not exist",
    ],
    [
      "mkdir /var/lib/docker/tmp/docker-builder123: permission denied",
      undefined,
      "engine_error",
      "cannot build the image: mkdir (a file of the engine): permission denied",
    ],
  ])("is made from the engine's message: %s", (text, failed, code, message) => {
    const error = toEngineBuildError({ text, step: failed, hasAuth: false });
    expect({ code: error.code, message: error.message }).toEqual({ code, message });
  });

  it("reports a private image as denied if credentials were sent", () => {
    const text =
      "pull access denied for a, repository does not exist or may require 'docker login'";
    const error = toEngineBuildError({ text, step: step("FROM a"), hasAuth: true });
    expect(error.code).toBe("registry_denied");
  });

  it("contains the memory limit if the engine killed a step for its memory use", () => {
    const text = "The command '/bin/sh -c make' returned a non-zero code: 137";
    const killed = { text, step: step("RUN make"), hasAuth: false };
    expect(toEngineBuildError({ ...killed, memoryBytes: 2 ** 30 }).hint).toContain("1024 MiB");
    expect(toEngineBuildError(killed).hint).toContain("the machine ran out of memory");
  });

  it("shows no path of the engine's machine", () => {
    for (const text of [
      "failed to walk /srv/docker/tmp/buildkit-mount42/app: lstat /srv/docker/tmp/buildkit-mount42/app: input/output error",
      "failed to copy files: copy file range failed: /var/lib/docker/overlay2/l/x: broken",
    ])
      expect(
        toEngineBuildError({ text, step: step("COPY app /"), hasAuth: false }).message,
      ).not.toMatch(/\/srv|\/var/);
  });
});
