import type { StackDetails, StackItem } from "../../resources/wire/stacks.ts";
import { type Colors, getStatusColour } from "../colours.ts";
import {
  formatFields,
  formatSection,
  getInnerWidth,
  type ViewOptions,
} from "../output/format-sections.ts";
import { createListing, type Listing } from "../output/print.ts";
import { createAppListing } from "../views/apps.ts";

export function createStackListing(stacks: readonly StackItem[], colours: Colors): Listing {
  return createListing<StackItem>({
    rows: stacks,
    columns: [
      { header: "NAME", value: (stack) => stack.name },
      {
        header: "STATUS",
        value: (stack) => stack.status,
        colour: (text, stack) => getStatusColour(colours, stack.status)(text),
      },
      { header: "READY", value: formatReadyCount },
      { header: "URL", value: (stack) => stack.urls.join(", "), canShrink: true, dropOrder: 1 },
    ],
    wideColumns: [{ header: "MESSAGE", value: (stack) => stack.message, canShrink: true }],
    name: (stack) => `stack/${stack.name}`,
    document: { stacks, total: stacks.length },
    empty: "no stacks yet; import one with `berth import compose.yaml`, or set metadata.stack",
  });
}

export function describeStack(stack: StackDetails, options: ViewOptions): string {
  const { colours } = options;
  const apps = createAppListing(stack.members, colours, options.nowMs);
  return [
    formatFields([
      ["Name", colours.bold(stack.name)],
      ["Status", getStatusColour(colours, stack.status)(stack.status)],
      ["Ready", `${formatReadyCount(stack)} apps`],
      ["Message", stack.message],
      ["URLs", stack.urls],
      ["Secrets", stack.secrets],
    ]),
    formatSection("Apps", apps.table(undefined, getInnerWidth(options)), options),
  ].join("\n\n");
}

const formatReadyCount = ({ ready, apps }: StackItem) => `${ready}/${apps}`;
