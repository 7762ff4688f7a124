// Light, dark, or as the system says. The choice is kept; `data-theme` on the root tells the style sheet.

export type Choice = "light" | "dark" | "system";

const KEY = "redial.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

let choice = $state<Choice>(kept());
let systemDark = $state(system.matches);

system.addEventListener("change", (event) => (systemDark = event.matches));
apply();

export const theme = {
  get choice(): Choice {
    return choice;
  },
  set choice(next: Choice) {
    choice = next;
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // Storage is switched off: the choice lasts as long as the page.
    }
    apply();
  },
  /** Whether the page is dark now: what a canvas, which knows no custom properties, has to follow. */
  get dark(): boolean {
    return choice === "system" ? systemDark : choice === "dark";
  },
};

/** The value of a custom property of the style sheet, as a colour that a canvas takes. */
export function colour(property: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(--${property})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

function kept(): Choice {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}

function apply(): void {
  if (choice === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = choice;
}
