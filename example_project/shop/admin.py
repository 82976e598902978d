"""The shop's own pages in the admin; the scheduler brings its own."""

from django.contrib import admin

from shop.models import Cart, Customer, ExchangeRate, Invoice, Order, Product, Reminder, ReportLine

admin.site.register(
    Customer,
    list_display=("name", "email", "country", "created_at"),
    list_filter=("country",),
    search_fields=("name", "email"),
)
admin.site.register(
    Product,
    list_display=("sku", "name", "price", "imported_at"),
    search_fields=("sku", "name"),
)
admin.site.register(
    Cart,
    list_display=("customer", "items", "touched_at"),
    list_select_related=("customer",),
    raw_id_fields=("customer",),
)
admin.site.register(
    Order,
    list_display=("__str__", "customer", "payment", "total", "placed_at", "paid_at", "settled_at"),
    list_filter=("payment",),
    list_select_related=("customer",),
    raw_id_fields=("customer",),
    search_fields=("customer__name",),
)
admin.site.register(
    Invoice,
    list_display=("number", "order", "amount", "issued_at", "due_at", "paid_at", "reminder_level"),
    list_select_related=("order",),
    raw_id_fields=("order",),
    search_fields=("number",),
)
admin.site.register(
    Reminder,
    list_display=("__str__", "level", "sent_at"),
    list_select_related=("invoice",),
    raw_id_fields=("invoice",),
)
admin.site.register(ReportLine, list_display=("day", "label", "value"), list_filter=("label",))
admin.site.register(ExchangeRate, list_display=("currency", "per_euro", "fetched_at"))
