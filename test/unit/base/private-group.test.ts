import { expect, it } from "vitest";
import { isPrivateGroup } from "../../../src/base/private-group.ts";

const groups = "root:x:0:\nann:x:1000:\nbob:x:1001:bob\nteam:x:1002:\nshared:x:1003:ann,bob\n";
const users =
  "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:1001::/home/bob:/bin/sh\n";

it.each<[string, string, number, string, boolean]>([
  ["has its user's name and no members", "ann", 1000, users, true],
  ["has its user as the only member", "bob", 1001, users, true],
  ["has another name", "ann", 1002, users, false],
  ["has several members", "ann", 1003, users, false],
  ["is the primary group of another user, too", "ann", 1000, `${users}eve:x:7:1000:::\n`, false],
  ["is unknown", "ann", 5000, users, false],
])(
  "isPrivateGroup() decides for a group that %s (user %s, group %i)",
  (_, name, gid, passwd, isPrivate) => {
    expect(isPrivateGroup(name, gid, groups, passwd)).toBe(isPrivate);
  },
);
