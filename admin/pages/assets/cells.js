// A table's cells, by the kind of their column. As a component it keeps each element when rows change, and with it the
// keyboard's focus, what is unfolded, and what is selected; a slot's template would make all of them anew.
// Vue escapes texts in double braces and values of attributes, so that they are never markup.
export default {
  props: { columns: Array, ticking: Object },
  computed: {
    copying: () => document.querySelector("script[data-copy]").dataset.copy,
    sorted() {
      const value = (cell) => cell?.order ?? cell?.text ?? "";
      const compare = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
      return this.columns.map((column) => ({ ...column, sort: compare }));
    },
  },
  template: `
    <q-table ref="qRef" :columns="sorted">
      <template v-slot:header-selection="head">
        <q-checkbox v-model="head.selected" :aria-label="ticking?.all" dense />
      </template>
      <template v-slot:body-selection="cell">
        <q-checkbox v-model="cell.selected" :aria-label="ticking?.one + ' ' + cell.row[ticking?.by].text" dense />
      </template>
      <template v-slot:body-cell="cell">
        <q-td :props="cell" :data-title="cell.col.label" :class="{ 'pier-changes': cell.col.shows === 'changes' }">
          <template v-if="!cell.value"></template>
          <button v-else-if="cell.col.shows === 'opening'" type="button" class="pier-link-button"
            :aria-label="cell.value.said" :data-attempt="cell.row.key">{{ cell.value.text }}</button>
          <span v-else-if="cell.col.shows === 'deeds'" class="pier-deeds">
            <button v-for="deed in cell.value.deeds" :key="deed.name" type="button" class="pier-button"
              :aria-label="deed.said" :data-deed="deed.name" :data-row="cell.row.key">{{ deed.text }}</button>
          </span>
          <template v-else-if="cell.col.shows === 'changes'">
            <component :is="cell.value.fold ? 'details' : 'div'" v-if="cell.value.fields.length">
              <summary v-if="cell.value.fold">{{ cell.value.fold }}</summary>
              <div v-for="field in cell.value.fields" :key="field.name">
                <b class="pier-bidi">{{ field.name }}</b>
                <template v-if="field.before !== null"
                  >{{ " " }}<del class="pier-bidi">{{ field.before }}</del>{{ " →" }}</template>
                <template v-if="field.after !== null">{{ " " }}<ins class="pier-bidi">{{ field.after }}</ins></template>
              </div>
            </component>
          </template>
          <a v-else-if="cell.value.href" :href="cell.value.href" :title="cell.value.title" :class="cell.value.classes"
            >{{ cell.value.text }}</a>
          <time v-else-if="cell.value.time" :datetime="cell.value.time" :title="cell.value.title"
            :class="cell.value.classes">{{ cell.value.text }}</time>
          <span v-else :title="cell.value.title" :class="cell.value.classes">
            <i v-if="cell.value.icon" class="q-icon material-icons" aria-hidden="true">{{ cell.value.icon }}</i>
            {{ cell.value.text }}
          </span>
          <button v-if="cell.value?.copies" type="button" class="pier-copy-one" :data-pier-text="cell.value.copies"
            :aria-label="copying + ' ' + cell.value.copies" :title="copying">
            <i class="q-icon material-icons" aria-hidden="true">content_copy</i>
          </button>
        </q-td>
      </template>
    </q-table>
  `,
};
