import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalJson } from "../../../src/base/canonical-json.ts";
import {
  flattenFields,
  getAncestors,
  type ResourceFields,
  unflattenLeaves,
} from "../../../src/store/field-leaves.ts";

describe("leaves of a document", () => {
  it("are scalars, whole arrays and empty maps, addressed by JSON Pointer", () => {
    const leaves = flattenFields({
      spec: {
        image: "nginx:1",
        env: { A: "1", "B/C": { secret: "s" }, "D~E": 2 },
        command: ["a", { b: 1 }],
        rollout: {},
        port: undefined,
      },
      labels: { team: "web" },
      annotations: { "berth.dev/x": "y" },
    });
    expect(Object.fromEntries(leaves)).toEqual({
      "/spec/image": "nginx:1",
      "/spec/env/A": "1",
      "/spec/env/B~1C/secret": "s",
      "/spec/env/D~0E": 2,
      "/spec/command": ["a", { b: 1 }],
      "/spec/rollout": {},
      "/metadata/labels/team": "web",
      "/metadata/annotations/berth.dev~1x": "y",
    });
  });

  it("can be converted back to the same document, whatever its keys", () => {
    const documents: fc.Arbitrary<ResourceFields> = fc.record({
      spec: fc.dictionary(
        fc.oneof(fc.string(), fc.constantFrom("__proto__", "constructor", "a/b", "~1", "")),
        fc.jsonValue(),
      ),
      labels: fc.dictionary(fc.string(), fc.string()),
      annotations: fc.dictionary(fc.string(), fc.string()),
    });
    fc.assert(
      fc.property(documents, (document) => {
        expect(canonicalJson(unflattenLeaves(flattenFields(document)))).toBe(
          canonicalJson(document),
        );
      }),
    );
  });

  it("have ancestors, which are returned with the nearest first", () => {
    expect(getAncestors("/spec/env/A")).toEqual(["/spec/env", "/spec"]);
    expect(getAncestors("/spec")).toEqual([]);
  });
});
