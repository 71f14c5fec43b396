import { type Static, Type } from "typebox";
import { Bytes, ContainerPath, Name } from "./field-schemas.ts";

const closed = { additionalProperties: false } as const;

const Shared = Type.Boolean({
  description:
    "true: it belongs to the stack, and is the same for all apps of the stack that name it so",
});

export const Volume = Type.Union(
  [
    Type.Object(
      {
        name: Name,
        path: ContainerPath,
        readOnly: Type.Optional(Type.Boolean()),
        shared: Type.Optional(Shared),
      },
      closed,
    ),
    Type.Object(
      { hostPath: ContainerPath, path: ContainerPath, readOnly: Type.Optional(Type.Boolean()) },
      closed,
    ),
  ],
  { description: "a named volume (name) or a folder of the machine (hostPath), mounted at path" },
);
export type Volume = Static<typeof Volume>;

/** A folder that Berth makes below its data directory, for data that users also look into or edit. */
export const Folder = Type.Object(
  {
    name: Name,
    path: ContainerPath,
    readOnly: Type.Optional(Type.Boolean()),
    shared: Type.Optional(Shared),
  },
  closed,
);
export type Folder = Static<typeof Folder>;

/** A folder whose content is in memory, and ends with the container. */
export const Tmpfs = Type.Object({ path: ContainerPath, size: Type.Optional(Bytes) }, closed);
