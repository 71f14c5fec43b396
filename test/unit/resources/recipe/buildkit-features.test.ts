import { expect, test } from "vitest";
import { findBuildKitFeatures } from "../../../../src/resources/recipe/buildkit-features.ts";

const featuresOf = (text: string) =>
  findBuildKitFeatures(text).map(({ line, feature }) => `${line}: ${feature}`);

test.each([
  ["# syntax=docker/dockerfile:1\nFROM a", ["1: # syntax=docker/dockerfile:1"]],
  ["#  Syntax = docker/dockerfile:1.7  \nFROM a", ["1: # syntax=docker/dockerfile:1.7"]],
  ["# escape=`\n# syntax=x\nFROM a", ["2: # syntax=x"]],
  ["FROM a\nRUN --mount=type=cache,target=/x npm ci", ["2: RUN --mount"]],
  ["FROM a\nRUN --network=none --security=insecure x", ["2: RUN --network", "2: RUN --security"]],
  [
    "FROM a\nrun \\\n  # why\n\n  --mount=type=secret,id=a \\\n  x\nCOPY --link a b",
    ["2: RUN --mount", "7: COPY --link"],
  ],
  ["FROM a\nRUN <<EOF\nx\nEOF", ["2: RUN with a here-document"]],
  ["FROM a\nRUN python3 <<-'PY'\nx\nPY", ["2: RUN with a here-document"]],
  ['FROM a\nCOPY <<"x" /a\nx', ["2: COPY with a here-document"]],
  ["FROM a\nCOPY --chown=1:1 --chmod=755 a b", ["2: COPY --chmod"]],
  [
    "FROM a\nCOPY --parents a b\nADD --checksum=sha256:x a b",
    ["2: COPY --parents", "3: ADD --checksum"],
  ],
  ["FROM a\nONBUILD RUN --mount=type=cache x", ["2: RUN --mount"]],
  [
    "FROM --platform=$BUILDPLATFORM a\nARG TARGETARCH",
    ["1: FROM with BUILDPLATFORM", "2: ARG with TARGETARCH"],
  ],
  ["# escape=`\nFROM a\nRUN `\n --mount=x y", ["3: RUN --mount"]],
])("the Dockerfile text %j needs BuildKit", (text, features) => {
  expect(featuresOf(text)).toEqual(features);
});

test("a Dockerfile that is slow to parse on purpose does not stop the server", () => {
  const gap = " ".repeat(500_000);
  expect(featuresOf(`# syntax=x${gap}y`)).toEqual([`1: # syntax=x${gap}y`]);
  const long = "a \\\n".repeat(200_000);
  expect(featuresOf(`FROM a\nRUN ${long}b\nRUN --mount=x`)).toEqual(["200003: RUN --mount"]);
});

const ordinary = [
  "FROM a\n# syntax=docker/dockerfile:1",
  "# a comment\n# syntax=docker/dockerfile:1\nFROM a",
  "FROM a AS build\nCOPY --from=build --chown=1:1 a b",
  "FROM a\nRUN x --mount=y && echo --network",
  "FROM a\n# RUN --mount=x\nRUN true",
  "FROM a\nRUN cat <<< word && echo $((1 << 2))",
  "FROM --platform=linux/amd64 a\nENV TARGETARCH=x",
  "FROM a\nRUN echo \\\n  COPY --link a b",
  "FROM a\nENV A=<<EOF",
  "",
];
test.each(ordinary)("the Dockerfile text %j does not need BuildKit", (text) => {
  expect(featuresOf(text)).toEqual([]);
});
