import { expect, it } from "vitest";
import { deriveFolderName } from "../../../../src/controller/specs/git-files.ts";

it.each([
  ["https://git.example/team/shop.git", "shop"],
  ["https://git.example/team/shop/", "shop"],
  ["git@git.example:team/shop.git", "shop"],
  ["git@git.example:shop.git", "shop"],
  ["ssh://git@git.example:2222/~me/my%20shop", "my-20shop"],
  ["https://git.example/.git", "git"],
  ["https://git.example/team/..", "git"],
  ["https://git.example/team/.hidden.git?x=1#y", "hidden"],
])("the spec files of %s are written to %s/", (url, name) => {
  expect(deriveFolderName(url)).toBe(name);
});
