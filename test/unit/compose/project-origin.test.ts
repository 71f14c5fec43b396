import { dirname } from "node:path";
import { expect, test } from "vitest";
import { importCompose } from "../../../src/compose/import-compose.ts";

const services = 'services: { a: { image: "x:1" } }';

/** Imports the first of the files, and returns the origin of its App. */
function getOrigin(texts: Readonly<Record<string, string>>, stack?: string): string {
  const [file = ""] = Object.keys(texts);
  const { apps } = importCompose(
    { files: [file], specFolder: dirname(file), stack },
    {
      read: (path) => {
        const text = texts[path];
        return text === undefined ? { problem: "there is no such file" } : { text };
      },
      displayPath: String,
    },
  );
  return apps[0]?.manifest.metadata.annotations?.["berth.dev/origin"] ?? "";
}

const config = (url: string) =>
  `[core]\n\tbare = false\n[remote "fork"]\n\turl = https://example.org/x\n[remote "origin"]\n\turl = ${url}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch "main"]\n`;

test("the origin of an App names its project", () => {
  expect(getOrigin({ "/src/x/compose.yaml": `name: blog\n${services}` })).toMatch(
    /^import:blog@[0-9a-f]{12}$/,
  );
  expect(getOrigin({ "/src/x/docker-compose.yml": services })).toMatch(/^import:x@/);
  expect(getOrigin({ "/src/x/shop.yml": services })).toMatch(/^import:shop@/);
  expect(getOrigin({ "/src/x/shop.yml": services }, "mine")).toMatch(/^import:mine@/);
});

test("two files with projects of the same name have different origins, and one file has always the same", () => {
  const [first, again, second, third] = [
    getOrigin({ "/a/blog/compose.yaml": services }),
    getOrigin({ "/a/blog/compose.yaml": 'services: { a: { image: "y:1" } }' }),
    getOrigin({ "/b/blog/compose.yaml": services }),
    getOrigin({ "/b/other.yaml": `name: blog\n${services}` }),
  ];
  expect(again).toBe(first);
  expect(new Set([first, second, third]).size).toBe(3);
  expect(getOrigin({ "/a/one.yaml": services }, "blog")).not.toBe(
    getOrigin({ "/a/two.yaml": services }, "blog"),
  );
});

test("a file has the same origin in each clone of its repository, over https and ssh", () => {
  const origins = [
    getOrigin({
      "/home/a/shop/deploy/compose.yaml": `name: shop\n${services}`,
      "/home/a/shop/.git/config": config("https://token@git.example.org/team/shop.git"),
    }),
    getOrigin({
      "/builds/17/deploy/compose.yaml": `name: shop\n${services}`,
      "/builds/17/.git/config": config("git@git.example.org:team/shop"),
    }),
  ];
  expect(origins[0]).toBe(origins[1]);
  const others = [
    getOrigin({
      "/builds/17/other/compose.yaml": `name: shop\n${services}`,
      "/builds/17/.git/config": config("git@git.example.org:team/shop"),
    }),
    getOrigin({
      "/builds/17/deploy/compose.yaml": `name: shop\n${services}`,
      "/builds/17/.git/config": config("git@git.example.org:team/fork"),
    }),
    getOrigin({
      "/builds/17/deploy/compose.yaml": `name: shop\n${services}`,
      "/builds/17/.git/config": "[core]\n\tbare = false\n",
    }),
  ];
  expect(new Set([...origins, ...others]).size).toBe(4);
});

test("a project from standard input has its name as its origin, or one by its content", () => {
  expect(getOrigin({ "/a/-": `name: blog\n${services}` })).toBe("import:blog");
  const unnamed = getOrigin({ "/a/-": services });
  expect(unnamed).toMatch(/^import:stdin-[0-9a-f]{12}$/);
  expect(getOrigin({ "/a/-": `# another\n${services}` })).not.toBe(unnamed);
});
