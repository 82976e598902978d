from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

admin.site.site_header = "Lantern & Loom"
admin.site.site_title = "Lantern & Loom"

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("scheduler/", include("sync_scheduler.urls")),
]
