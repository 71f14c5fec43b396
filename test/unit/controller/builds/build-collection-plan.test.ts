import { describe, expect, test } from "vitest";
import {
  type BuildCollectionInput,
  findBuiltImages,
  planBuildCollection,
} from "../../../../src/controller/builds/build-collection-plan.ts";
import type { BuiltImageInfo } from "../../../../src/controller/runtime/port.ts";

const NOW = Date.parse("2030-01-01T12:00:00Z");
const HOUR_MS = 3_600_000;

describe("images", () => {
  test("the newest images of each app are kept", () => {
    const images = [image("web", 1), image("web", 2), image("web", 3), image("db", 1)];
    expect(going({ images, keep: 2 })).toEqual(["web:1"]);
  });

  test("protected images are kept, by reference and by id, whatever their age", () => {
    const images = [1, 2, 3, 4, 5].map((number) => image("web", number));
    const guarded = { images: new Set([tag("web", 1), "id-web-2"]), archives: new Set<string>() };
    expect(going({ images, keep: 1, protectedContent: guarded })).toEqual(["web:3", "web:4"]);
  });

  test("over the disk budget, the oldest images are removed first, even if a newer image is larger", () => {
    const images = [
      image("web", 1, 10),
      image("db", 2, 10),
      image("web", 3, 80),
      image("db", 4, 10),
    ];
    expect(going({ images, bytesMax: 95 })).toEqual(["web:1", "db:2"]);
    expect(going({ images, bytesMax: 50 })).toEqual(["web:1", "db:2", "web:3"]);
    expect(going({ images, bytesMax: 110 })).toEqual([]);
  });

  test("protected images count towards the disk budget", () => {
    const images = [image("web", 1, 90), image("web", 2, 10), image("web", 3, 5)];
    const guarded = { images: new Set([tag("web", 1)]), archives: new Set<string>() };
    expect(going({ images, protectedContent: guarded, bytesMax: 96 })).toEqual(["web:2"]);
    expect(going({ images, protectedContent: guarded, bytesMax: 0 })).toEqual(["web:2", "web:3"]);
  });

  test("the oldest image is removed if the images and the stored archives together exceed the disk budget", () => {
    const images = [image("web", 1, 10), image("web", 2, 10)];
    const archives = [{ digest: "a", bytes: 85, storedAtMs: NOW }];
    expect(going({ images, archives, bytesMax: 100 })).toEqual(["web:1"]);
  });

  test("images that this instance has not built, or that have other tags, are not considered", () => {
    const own = image("web", 1);
    const strangers = [
      { ...own, tags: ["berth-ffffffff/web:1"] },
      { ...own, tags: ["berth-0123abcd/web"] },
      { ...own, tags: ["registry.test/berth-0123abcd/web:1"] },
      { ...own, tags: [...own.tags, "mine:1"] },
      { ...own, tags: ["mine:1"] },
      { ...own, tags: [] },
    ];
    expect(findBuiltImages("0123abcd", strangers)).toEqual([]);
    expect(findBuiltImages("0123abcd", [own])).toHaveLength(1);
  });
});

describe("archives", () => {
  test("unused archives are removed after a grace period", () => {
    const archives = [
      { digest: "named", bytes: 1, storedAtMs: NOW - 48 * HOUR_MS },
      { digest: "loose", bytes: 1, storedAtMs: NOW - 2 * HOUR_MS },
      { digest: "fresh", bytes: 1, storedAtMs: NOW - HOUR_MS / 2 },
    ];
    const guarded = { images: new Set<string>(), archives: new Set(["named"]) };
    const plan = planBuildCollection(input({ archives, protectedContent: guarded }));
    expect(plan.archives.map(({ digest }) => digest)).toEqual(["loose"]);
  });
});

function going(changes: Partial<BuildCollectionInput>): string[] {
  return planBuildCollection(input(changes)).images.map(
    ({ references }) => references[0]?.replace("berth-0123abcd/", "") ?? "",
  );
}

function input(changes: Partial<BuildCollectionInput>): BuildCollectionInput {
  return {
    instance: "0123abcd",
    images: [],
    archives: [],
    protectedContent: { images: new Set(), archives: new Set() },
    keep: 10,
    bytesMax: 1_000,
    nowMs: NOW,
    findBuild: (reference) => Number(reference.split(":")[1]),
    ...changes,
  };
}

/** Returns an image; a higher `number` means a newer image. */
function image(app: string, number: number, bytes = 1): BuiltImageInfo {
  return {
    id: `id-${app}-${number}`,
    tags: [tag(app, number)],
    bytes,
    createdAt: new Date(NOW - 100 * HOUR_MS + number * HOUR_MS).toISOString(),
  };
}

function tag(app: string, number: number): string {
  return `berth-0123abcd/${app}:${number}`;
}
